package fake

import (
	"os"
	"strings"
)

// redirect removes the redirections from a statement and returns its stream, or "" for none.
func redirect(words []string) (stream string, rest []string) {
	stream = "stdout"
	for _, w := range words {
		switch w {
		case ">&2", "1>&2", ">/dev/stderr":
			stream = "stderr"
		case ">/dev/null", "1>/dev/null":
			stream = ""
		case "2>&1", "2>/dev/null", "&":
		default:
			rest = append(rest, w)
		}
	}
	return stream, rest
}

// parsed is a statement with the operator before it.
type parsed struct {
	after string
	words []string
}

// parse splits a script into statements and words.
func parse(text string, env func(string) string) []parsed {
	var (
		out    []parsed
		cur    parsed
		word   strings.Builder
		quoted bool // the word has quotes, so it counts even if it is empty
		flush  = func() {
			if word.Len() > 0 || quoted {
				cur.words = append(cur.words, word.String())
			}
			word.Reset()
			quoted = false
		}
		end = func(op string) {
			flush()
			if len(cur.words) > 0 {
				out = append(out, cur)
				cur = parsed{after: op}
			} else if op != ";" {
				cur.after = op
			}
		}
	)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'' || c == '"':
			n := strings.IndexByte(text[i+1:], c)
			if n < 0 {
				n = len(text) - i - 1
			}
			s := text[i+1 : i+1+n]
			if c == '"' {
				s = os.Expand(s, env)
			}
			word.WriteString(s)
			quoted = true
			i += n + 1
		case c == '\\' && i+1 < len(text):
			i++
			if text[i] != '\n' {
				word.WriteByte(text[i])
			}
		case c == '#' && word.Len() == 0 && !quoted:
			n := strings.IndexByte(text[i:], '\n')
			if n < 0 {
				n = len(text) - i
			}
			i += n - 1
		case c == ';' || c == '\n':
			end(";")
		case strings.HasPrefix(text[i:], "&&") || strings.HasPrefix(text[i:], "||"):
			end(text[i : i+2])
			i++
		case c == ' ' || c == '\t' || c == '\r':
			flush()
		case c == '$':
			j := i + 1
			for j < len(text) && inName(text[j]) {
				j++
			}
			if j == i+1 {
				word.WriteByte(c)
				continue
			}
			word.WriteString(env(text[i+1 : j]))
			i = j - 1
		default:
			word.WriteByte(c)
		}
	}
	end(";")
	return out
}

// inName reports whether c can occur in the name of a variable.
func inName(c byte) bool {
	return c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
}

package integrations

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// command is a marked part of a page: a block, or one command of a block with its expected output.
type command struct {
	code string
	says string   // text that the output must contain
	want []string // lines of the whole output, if given; "…" matches anything, in a line or as lines
}

// mayFail reports whether the page shows that the command fails.
func (c command) mayFail() bool {
	for _, line := range c.want {
		if strings.HasPrefix(line, "error: ") {
			return true
		}
	}
	return false
}

// exitCode matches a line whose command fails, and says so.
var exitCode = regexp.MustCompile(`(?m)^(.*\S) +# exit code ([1-9])$`)

var (
	beforehand = regexp.MustCompile(`(?ms)^<!-- run before\n(.*?)^-->$`)
	marked     = regexp.MustCompile("(?ms)^<!-- run it(?:: ([^\n]*?))? -->\n```(sh|console)\n(.*?)^```$")
)

// commands returns the marked commands of a page, in order. CONTRIBUTING.md describes the marks. A
// mark that is not right above a block is an error.
func commands(page string) ([]command, error) {
	type found struct {
		at  int
		all []command
	}
	var blocks, order []found
	for _, m := range beforehand.FindAllStringSubmatchIndex(page, -1) {
		blocks = append(blocks, found{m[0], []command{{code: page[m[2]:m[3]]}}})
	}
	for _, m := range marked.FindAllStringSubmatchIndex(page, -1) {
		b := found{at: m[0]}
		says := ""
		if m[2] >= 0 {
			says = page[m[2]:m[3]]
		}
		if code := page[m[6]:m[7]]; page[m[4]:m[5]] == "sh" {
			b.all = []command{{code: code, says: says}}
		} else {
			b.all = typed(code)
			if says != "" || len(b.all) == 0 {
				return nil, fmt.Errorf("a block of console must show its output below lines that begin with \"$ \":\n%s",
					code)
			}
		}
		blocks = append(blocks, b)
	}
	if n := strings.Count(page, "<!-- run"); n != len(blocks) {
		return nil, fmt.Errorf("got %d marks and %d blocks right below one", n, len(blocks))
	}
	for len(blocks) > 0 { // typically a few
		first := 0
		for i := range blocks {
			if blocks[i].at < blocks[first].at {
				first = i
			}
		}
		order = append(order, blocks[first])
		blocks = append(blocks[:first], blocks[first+1:]...)
	}
	var all []command
	for _, b := range order {
		all = append(all, b.all...)
	}
	return all, nil
}

// typed splits a block of console: commands begin with "$ ", and continue after a backslash.
func typed(block string) []command {
	var all []command
	more := false
	for line := range strings.Lines(block) {
		code, is := strings.CutPrefix(line, "$ ")
		switch {
		case more:
			all[len(all)-1].code += line
		case is:
			all = append(all, command{code: code})
		case len(all) > 0:
			all[len(all)-1].want = append(all[len(all)-1].want, strings.TrimRight(line, " \n"))
		default:
			return nil
		}
		more = (is || more) && strings.HasSuffix(line, "\\\n")
	}
	return all
}

// prints reports whether an output matches the page. The width of columns does not count.
func prints(want []string, text string) bool {
	var pattern strings.Builder
	for _, line := range want {
		if line == "…" {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		parts := strings.Split(strings.Join(strings.Fields(line), " "), "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		pattern.WriteString(strings.Join(parts, ".*") + `\n`)
	}
	var got strings.Builder
	for line := range strings.Lines(text) {
		got.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return regexp.MustCompile("^" + pattern.String() + "$").MatchString(got.String())
}

func TestCommands(t *testing.T) {
	for page, want := range map[string][]command{
		"nothing":                                         nil,
		"<!-- run it -->\n```sh\na\nb\n```":               {{code: "a\nb\n"}},
		"<!-- run it: x -->\n```sh\na\n```":               {{code: "a\n", says: "x"}},
		"```sh\na\n```\n<!-- run it -->\n```sh\nb\n```\n": {{code: "b\n"}},
		"<!-- run it -->\n```sh\na\n```\n\n<!-- run before\nb\nc\n-->\n\n<!-- run it -->\n```sh\nd\n```\n": {{code: "a\n"},
			{code: "b\nc\n"}, {code: "d\n"}},
		"<!-- run it -->\n```console\n$ a \\\n  b\nx  y\n…\n$ c\n```\n": {{code: "a \\\n  b\n",
			want: []string{"x  y", "…"}}, {code: "c\n"}},
	} {
		got, err := commands(page)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(command{})); diff != "" || err != nil {
			t.Errorf("commands(%q): %v (-want +got):\n%s", page, err, diff)
		}
	}
	for _, page := range []string{
		"<!-- run it -->\n\n```sh\na\n```\n", "<!-- run it -->\n```yaml\na\n```\n", "<!-- run before -->", "<!-- run me -->",
		"<!-- run it -->\n```console\na\n```\n", "<!-- run it: x -->\n```console\n$ a\n```\n",
	} {
		if got, err := commands(page); err == nil {
			t.Errorf("commands(%q): got %v, want an error", page, got)
		}
	}
}

func TestPrints(t *testing.T) {
	for _, tt := range []struct {
		want, text string
		is         bool
	}{
		{"a", "a\n", true},
		{"a", "a", true},
		{"a  b", "a b  \n", true},
		{"a.c", "abc\n", false},
		{"a", "a\nb\n", false},
		{"a\n…", "a\nb\nc\n", true},
		{"a\n…", "a\n", true},
		{"…\nc", "a\nb\nc\n", true},
		{"a…c", "abc\n", true},
		{"a…c", "a\nc\n", false},
	} {
		if got := prints(strings.Split(tt.want, "\n"), tt.text); got != tt.is {
			t.Errorf("prints(%q, %q): got %v", tt.want, tt.text, got)
		}
	}
}

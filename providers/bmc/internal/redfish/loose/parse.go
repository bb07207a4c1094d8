// Package loose reads JSON objects that firmware wrote, one property at a time.
//
// It owns the rule that a property of another type than the schema's costs that property alone:
// each method returns what it can, and notes the property as odd otherwise. It must not make
// requests, know schemas, or return the error texts of a JSON decoder.
package loose

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// ErrNotJSON is the error for an answer that is no JSON object, such as an HTML page or one that
// was cut off.
var ErrNotJSON = errors.New("the answer is not a JSON object")

// Parse parses an answer. It accepts what firmware is known to get wrong and that has one meaning
// only: a byte order mark, control characters and false escapes in strings, bare words and numbers
// that are none, commas and names without a value, and bytes behind the object. A list becomes an
// object with Members.
func Parse(body []byte) (Object, error) {
	body = bytes.TrimPrefix(body, []byte("\uFEFF"))
	v, ok := decode(body)
	if !ok {
		v, ok = decode(repaired(body))
	}
	if list, isList := v.([]any); isList {
		v = map[string]any{"Members": list}
	}
	props, isObject := v.(map[string]any)
	if !ok || !isObject {
		return Object{}, ErrNotJSON
	}
	return Object{props: props, odd: new(notes)}, nil
}

// decode parses the first JSON value, with numbers as they are written.
func decode(body []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	err := d.Decode(&v)
	return v, err == nil || errors.Is(err, io.EOF) && v != nil
}

// repaired returns body as JSON: control characters become blanks, a backslash that escapes nothing
// is dropped, bare words such as NaN, None or 007 become texts, and commas without a value are
// dropped. A name without a value has null.
func repaired(body []byte) []byte {
	var b bytes.Buffer
	last := byte(0) // the last byte outside of strings that is not blank
	for i := 0; i < len(body); {
		c := body[i]
		switch {
		case c <= ' ' || c == 0x7f:
			b.WriteByte(' ')
			i++
			continue
		case c == '"':
			i += quoted(&b, body[i:])
		case strings.IndexByte("{}[]:,", c) >= 0:
			i++
			if last == ':' && strings.IndexByte("}],", c) >= 0 {
				b.WriteString("null")
				last = 'l'
			}
			if c == ',' && strings.IndexByte("{[,", last) >= 0 {
				continue
			}
			if last == ',' && (c == '}' || c == ']') {
				b.Truncate(bytes.LastIndexByte(b.Bytes(), ','))
			}
			b.WriteByte(c)
		default:
			n := bytes.IndexAny(body[i:], "{}[]:,\"\r\n")
			if n < 0 {
				n = len(body) - i
			}
			word := bytes.TrimRight(body[i:i+n], " \t")
			i += n
			if !json.Valid(word) {
				word, _ = json.Marshal(string(word)) // a string cannot fail
			}
			b.Write(word)
		}
		last = c
	}
	return b.Bytes()
}

// quoted appends the string at the beginning of s, and returns its length in s.
func quoted(b *bytes.Buffer, s []byte) int {
	b.WriteByte('"')
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			b.WriteByte(c)
			return i + 1
		case c < ' ' || c == 0x7f:
			b.WriteByte(' ')
		case c == '\\' && (i+1 == len(s) || strings.IndexByte(`"\/bfnrtu`, s[i+1]) < 0):
		case c == '\\':
			b.Write(s[i : i+2])
			i++
		default:
			b.WriteByte(c)
		}
	}
	return len(s)
}

// textOf returns a value as trimmed text. ok is false if it is a list of several values or an
// object.
func textOf(v any) (s string, ok bool) {
	switch v := v.(type) {
	case nil:
		return "", true
	case string:
		return trim(v), true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	case []any:
		switch len(v) {
		case 0:
			return "", true
		case 1:
			if _, nested := v[0].([]any); !nested {
				return textOf(v[0])
			}
		}
	}
	return "", false
}

// trim removes blanks and control characters, such as the zeros of a field of fixed length, at both
// ends.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == '\uFEFF' || unicode.IsSpace(r)
	})
}

// placeholder reports whether s is written where a value is unknown.
func placeholder(s string) bool {
	switch strings.ToLower(strings.Trim(s, ".-")) {
	case "", "n/a", "na", "none", "null", "unknown", "nan", "inf", "infinity",
		"not available", "not applicable", "not specified",
		"not supported", "undefined", "unspecified", "empty":
		return true
	}
	return false
}

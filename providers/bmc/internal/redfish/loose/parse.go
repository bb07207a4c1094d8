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
// only: a byte order mark, control characters in strings, NaN and Infinity (which become null), and
// bytes behind the object. A list becomes an object with Members.
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

// repaired returns body with blanks in place of control characters, and null in place of NaN and
// Infinity outside of strings.
func repaired(body []byte) []byte {
	var b bytes.Buffer
	inside, escaped := false, false
	for i := 0; i < len(body); i++ {
		c := body[i]
		switch {
		case c < ' ' || c == 0x7f:
			c, escaped = ' ', false
		case escaped:
			escaped = false
		case inside && c == '\\':
			escaped = true
		case c == '"':
			inside = !inside
		case !inside:
			if n := notANumber(body[i:]); n > 0 {
				b.WriteString("null")
				i += n - 1
				continue
			}
		}
		b.WriteByte(c)
	}
	return b.Bytes()
}

// notANumber returns the length of a NaN or an Infinity at the beginning of s, or 0.
func notANumber(s []byte) int {
	sign := 0
	if len(s) > 0 && s[0] == '-' {
		sign = 1
	}
	for _, word := range []string{"nan", "infinity", "inf"} {
		if n := sign + len(word); len(s) >= n && strings.EqualFold(string(s[sign:n]), word) {
			return n
		}
	}
	return 0
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
	case "", "n/a", "na", "none", "null", "unknown", "nan", "not available", "not applicable", "not specified",
		"not supported", "undefined", "unspecified", "empty":
		return true
	}
	return false
}

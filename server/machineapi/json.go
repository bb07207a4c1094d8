package machineapi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"unicode"
)

// text is a string. Some agents send a number instead.
type text string

// UnmarshalJSON accepts strings, numbers and null.
func (t *text) UnmarshalJSON(b []byte) error {
	switch {
	case bytes.Equal(b, []byte("null")):
		return nil
	case plain(b):
		*t = text(strings.TrimSpace(string(b[1 : len(b)-1])))
		return nil
	case len(b) > 0 && b[0] == '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*t = text(strings.TrimSpace(s))
		return nil
	case len(b) > 0 && (b[0] == '-' || b[0] >= '0' && b[0] <= '9'):
		*t = text(b)
		return nil
	}
	return unfit[string](kindOf(b))
}

// ident is the id of a machine or a pool: a text as it was sent, since an id with blanks or a line
// break around it is refused, and not another one.
type ident string

// UnmarshalJSON accepts strings, numbers and null.
func (i *ident) UnmarshalJSON(b []byte) error {
	if plain(b) {
		*i = ident(b[1 : len(b)-1])
		return nil
	}
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(i))
	}
	var t text
	err := t.UnmarshalJSON(b)
	if !bytes.Equal(b, []byte("null")) {
		*i = ident(t)
	}
	return err
}

// unfit returns the error for a value that is not a T. encoding/json adds the member's
// name.
func unfit[T any](value string) error {
	return &json.UnmarshalTypeError{Value: value, Type: reflect.TypeFor[T]()}
}

// kindOf returns the kind of a JSON value, as encoding/json names it.
func kindOf(b []byte) string {
	switch {
	case bytes.HasPrefix(b, []byte("[")):
		return "array"
	case bytes.HasPrefix(b, []byte("{")):
		return "object"
	}
	return "bool"
}

// plain reports whether b is a string of ASCII without escapes. The decoder has checked
// that it is a valid JSON value.
func plain(b []byte) bool {
	if len(b) < 2 || b[0] != '"' {
		return false
	}
	for _, c := range b[1 : len(b)-1] {
		if c == '\\' || c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// maxExtra bounds the length of an extra, in bytes.
const maxExtra = 255

// extra is an optional text. A value that is too long or has control characters is ignored.
type extra string

// UnmarshalJSON accepts any value.
func (e *extra) UnmarshalJSON(b []byte) error {
	var t text
	err := t.UnmarshalJSON(b)
	if err == nil && len(t) <= maxExtra && !strings.ContainsFunc(string(t), unicode.IsControl) {
		*e = extra(t)
	}
	return nil
}

// number is a number of an agent.
type number float64

// maxNumber is the largest number that converts to an integer exactly.
const maxNumber = 1 << 53

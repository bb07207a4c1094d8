package machineapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
)

// text is a string. Agents send numbers in its place, too.
type text string

// UnmarshalJSON takes strings, numbers and null.
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

// unfit is the error of a value that is no T. encoding/json puts in which member it is of.
func unfit[T any](value string) error {
	return &json.UnmarshalTypeError{Value: value, Type: reflect.TypeFor[T]()}
}

// kindOf names the kind of a JSON value, as encoding/json does.
func kindOf(b []byte) string {
	switch {
	case bytes.HasPrefix(b, []byte("[")):
		return "array"
	case bytes.HasPrefix(b, []byte("{")):
		return "object"
	}
	return "bool"
}

// plain reports whether b is a string that says what it looks like: ASCII without escapes. The
// decoder has checked that it is a value.
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

// maxExtra bounds an extra, in bytes.
const maxExtra = 255

// extra is a text that nobody asked for: what is no line of a sensible length counts as not said.
type extra string

// UnmarshalJSON takes anything.
func (e *extra) UnmarshalJSON(b []byte) error {
	var t text
	if err := t.UnmarshalJSON(b); err == nil && len(t) <= maxExtra && !strings.ContainsFunc(string(t), unicode.IsControl) {
		*e = extra(t)
	}
	return nil
}

// number is a number. Agents send strings in its place, too.
type number float64

// UnmarshalJSON takes numbers, strings of one, and null.
func (n *number) UnmarshalJSON(b []byte) error {
	s := string(b)
	if len(b) == 0 || b[0] != '-' && (b[0] < '0' || b[0] > '9') {
		var t text
		if err := t.UnmarshalJSON(b); err != nil {
			return unfit[float64](kindOf(b))
		}
		s = string(t)
	}
	if s == "" {
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != f || f > maxNumber || f < -maxNumber {
		return unfit[float64](fmt.Sprintf("%.20q", s))
	}
	*n = number(f)
	return nil
}

// maxNumber keeps what is converted to integers exact.
const maxNumber = 1 << 53

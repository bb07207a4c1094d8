package httpjson

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Int32 is a whole number. The parsers of the original servers also take "50" and 50.0, and shell
// scripts send these.
type Int32 int32

// UnmarshalJSON accepts whole numbers, also as text or with a zero fraction, and null.
func (n *Int32) UnmarshalJSON(b []byte) error {
	s, quoted := unquoted(b)
	if s == "null" && !quoted {
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
		return unfit[int32](b)
	}
	*n = Int32(f)
	return nil
}

// Bool is true or false. The parsers of the original servers also take these as text.
type Bool bool

// UnmarshalJSON accepts true and false, also as text and as 1 and 0, and null.
func (v *Bool) UnmarshalJSON(b []byte) error {
	s, quoted := unquoted(b)
	switch strings.ToLower(s) {
	case "true", "1", "yes", "on":
		*v = true
	case "false", "0", "no", "off":
		*v = false
	case "null":
		if quoted {
			return unfit[bool](b)
		}
	default:
		return unfit[bool](b)
	}
	return nil
}

// unquoted returns the text of a JSON string without blanks around it, or a value as it is.
func unquoted(b []byte) (s string, quoted bool) {
	if len(b) > 0 && b[0] == '"' && json.Unmarshal(b, &s) == nil {
		return strings.TrimSpace(s), true
	}
	return string(b), false
}

// unfit returns the error for a value that is not a T. encoding/json adds the member's name.
func unfit[T any](b []byte) error {
	value := "null"
	switch {
	case len(b) == 0:
	case b[0] == '"':
		value = "string"
	case b[0] == '[':
		value = "array"
	case b[0] == '{':
		value = "object"
	case b[0] == 't' || b[0] == 'f':
		value = "bool"
	default:
		value = "number " + string(b[:min(len(b), 40)])
	}
	return &json.UnmarshalTypeError{Value: value, Type: reflect.TypeFor[T]()}
}

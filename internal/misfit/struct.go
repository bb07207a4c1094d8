package misfit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Struct returns the reason why a strict decoder of package encoding/json refused a text for a
// value: the key, the value and what is wanted.
func Struct(err error, into any) string {
	if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		name = strings.Trim(name, `"`)
		return fmt.Sprintf("unknown key %q%s", name, Unknown(name, keys(reflect.TypeOf(into))))
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		is, value, _ := strings.Cut(wrong.Value, " ")
		name := "it"
		if wrong.Field != "" {
			name = fmt.Sprintf("key %q", wrong.Field)
		}
		return fmt.Sprintf("%s is %s, not %s", name, cmp.Or(value, kindNames()[is], is), wanted(wrong.Type))
	}
	if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("it is not JSON: character %d does not fit", bad.Offset)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it is not JSON: it ends in the middle of a value"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// kindNames returns the words for the types of JSON.
func kindNames() map[string]string {
	return map[string]string{"string": "a text", "number": "a number", "bool": "true or false",
		"object": "keys and values",
		"array":  "a list"}
}

// wanted returns the words for the form that a type of Go has in JSON.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0 up"
	}
	return "keys and values"
}

// keys returns the names of the fields of a struct, or of the elements of a list or map.
func keys(t reflect.Type) []string {
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map, reflect.Pointer:
		return keys(t.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	var names []string
	for f := range t.Fields() {
		if f.Anonymous {
			names = append(names, keys(f.Type)...)
			continue
		}
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

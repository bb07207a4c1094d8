package httpjson

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// unmarshal decodes b into v. A value of another type that the parsers of the original servers also
// take, and that shell scripts send, is converted: numbers and booleans as text, 50.0 for 50, and 1
// for true. A text is never made of another value. Bodies without such values cost nothing more.
func unmarshal(b []byte, v any) error {
	err := json.Unmarshal(b, v)
	if _, odd := err.(*json.UnmarshalTypeError); !odd { //nolint:errorlint // as encoding/json returns it
		return err
	}
	return json.Unmarshal(converted(b, reflect.TypeOf(v)), v)
}

// whole is the largest number up to which a float64 has every whole number.
const whole = 1 << 53

// converted returns a JSON value with the parts that fit a type only after a conversion in the
// form that encoding/json takes. Other parts stay as they are.
func converted(b json.RawMessage, t reflect.Type) json.RawMessage {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) { // it reads by itself
		return b
	}
	switch t.Kind() {
	case reflect.Pointer:
		return converted(b, t.Elem())
	case reflect.Struct:
		return convertedMembers(b, func(name string) (reflect.Type, bool) { return member(t, name) })
	case reflect.Map:
		return convertedMembers(b, func(string) (reflect.Type, bool) { return t.Elem(), true })
	case reflect.Slice, reflect.Array:
		var all []json.RawMessage
		if json.Unmarshal(b, &all) != nil || all == nil {
			return b
		}
		for i := range all {
			all[i] = converted(all[i], t.Elem())
		}
		return encoded(all, b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s, ok := numeral(b)
		if !ok || strings.Trim(s, "-0123456789") == "" {
			break
		}
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > whole {
			return b
		}
		return json.RawMessage(strconv.FormatFloat(f, 'f', -1, 64))
	case reflect.Float32, reflect.Float64:
	case reflect.Bool:
		return truth(b)
	default:
		return b
	}
	if s, ok := numeral(b); ok {
		return json.RawMessage(s)
	}
	return b
}

// convertedMembers returns an object with converted members.
func convertedMembers(b json.RawMessage, typeOf func(name string) (reflect.Type, bool)) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(b, &all) != nil || all == nil {
		return b
	}
	for name, value := range all {
		if t, ok := typeOf(name); ok {
			all[name] = converted(value, t)
		}
	}
	return encoded(all, b)
}

func encoded(v any, or json.RawMessage) json.RawMessage {
	if b, err := json.Marshal(v); err == nil {
		return b
	}
	return or
}

// member returns the type of the field of a struct that encoding/json decodes a member into.
func member(t reflect.Type, name string) (reflect.Type, bool) {
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "" {
			tag = f.Name
		}
		if f.IsExported() && tag != "-" && strings.EqualFold(tag, name) && (!f.Anonymous || f.Tag.Get("json") != "") {
			return f.Type, true
		}
	}
	return nil, false
}

// numeral returns the digits of a JSON number, or of a text that is one.
func numeral(b json.RawMessage) (string, bool) {
	s := string(bytes.TrimSpace(b))
	if strings.HasPrefix(s, `"`) {
		if json.Unmarshal(b, &s) != nil {
			return "", false
		}
		s = strings.TrimSpace(s)
	}
	if s == "" || strings.Trim(s[:1], "-0123456789") != "" || !json.Valid([]byte(s)) {
		return "", false
	}
	return s, true
}

// truth returns true or false for a value that means it.
func truth(b json.RawMessage) json.RawMessage {
	s := string(bytes.TrimSpace(b))
	if strings.HasPrefix(s, `"`) && json.Unmarshal(b, &s) != nil {
		return b
	}
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "1", "yes", "on":
		return json.RawMessage("true")
	case "false", "0", "no", "off":
		return json.RawMessage("false")
	}
	return b
}

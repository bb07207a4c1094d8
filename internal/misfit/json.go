package misfit

import (
	stdbytes "bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Problem is a part of a JSON text that does not fit.
type Problem struct {
	Field string // spec.mac_addresses[1]; empty: the text itself
	Line  int    // from 1
	Msg   string
}

// Error returns the field and the reason.
func (p *Problem) Error() string {
	if p.Field == "" {
		return p.Msg
	}
	return p.Field + ": " + p.Msg
}

// maxDepth is the maximum nesting of a text. The API's messages need six levels.
const maxDepth = 100

// JSON returns the first part of a text that is not a message of the API in its JSON form, or nil.
func JSON(text []byte, md protoreflect.MessageDescriptor) *Problem {
	w := &walker{dec: json.NewDecoder(stdbytes.NewReader(text)), text: text}
	w.dec.UseNumber()
	if !utf8.Valid(text) {
		return &Problem{Line: 1, Msg: "it is not UTF-8"}
	}
	tok, err := w.dec.Token()
	if err != nil {
		return w.syntax(err)
	}
	if p := w.message(tok, md, ""); p != nil {
		return p
	}
	if _, err := w.dec.Token(); !errors.Is(err, io.EOF) {
		return w.at("", "there is more text behind the value")
	}
	if half := halfPair(text); half != "" {
		return &Problem{Line: 1, Msg: "the escape " + half + " is half of a character: it needs its other half"}
	}
	return nil
}

var (
	pair     = regexp.MustCompile(`(?i)\\\\|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}`)
	halfOnly = regexp.MustCompile(`(?i)\\ud[89a-f][0-9a-f]{2}`)
)

// halfPair returns an escape of half a surrogate pair, which package encoding/json replaces, or "".
func halfPair(text []byte) string { return string(halfOnly.Find(pair.ReplaceAll(text, nil))) }

// walker reads a text token by token.
type walker struct {
	dec   *json.Decoder
	text  []byte
	depth int
}

func (w *walker) at(field, format string, args ...any) *Problem {
	end := min(int(w.dec.InputOffset()), len(w.text))
	return &Problem{Field: field, Line: 1 + stdbytes.Count(w.text[:end], []byte("\n")), Msg: fmt.Sprintf(format, args...)}
}

// syntax returns the problem of a text that is not JSON.
func (w *walker) syntax(err error) *Problem {
	bad, ok := errors.AsType[*json.SyntaxError](err)
	if !ok || int(bad.Offset) > len(w.text) || bad.Offset == 0 || strings.HasSuffix(bad.Error(), "end of JSON input") {
		if len(stdbytes.TrimSpace(w.text)) == 0 {
			return &Problem{Line: 1, Msg: "it is empty: want an object in { }"}
		}
		return &Problem{Line: 1 + stdbytes.Count(w.text, []byte("\n")),
			Msg: "it is not JSON: it ends in the middle of a value"}
	}
	at := int(bad.Offset) - 1
	for at < len(w.text)-1 && strings.IndexByte(" \t\r\n", w.text[at]) >= 0 {
		at++
	}
	before := w.text[:at]
	line, column := 1+stdbytes.Count(before, []byte("\n")), len(before)-stdbytes.LastIndexByte(before, '\n')
	r, _ := utf8.DecodeRune(w.text[at:])
	return &Problem{Line: line, Msg: fmt.Sprintf("it is not JSON: unexpected %q at line %d, column %d", r, line, column)}
}

// message checks the value of a message that begins with a token.
func (w *walker) message(tok json.Token, md protoreflect.MessageDescriptor, path string) *Problem {
	if tok == nil && path != "" {
		return nil // null is no value
	}
	if asText(md) {
		text, ok := tok.(string)
		if !ok {
			return w.wrong(tok, path, "a text")
		}
		if why := textMessage(md, text); why != "" {
			return w.at(path, "%s", why)
		}
		return nil
	}
	if md.FullName().Parent() == "google.protobuf" {
		return w.skip(tok, path) // of any form
	}
	if tok != json.Delim('{') {
		return w.wrong(tok, path, "an object in { } with fields such as "+strings.Join(first(FieldNames(md), 3), ", "))
	}
	chosen := map[protoreflect.Name]string{} // the fields of alternatives
	spelled := map[protoreflect.Name]string{}
	return w.object(path, func(key string, tok json.Token) *Problem {
		fd := md.Fields().ByName(protoreflect.Name(key))
		if fd == nil {
			fd = md.Fields().ByJSONName(key)
		}
		if fd == nil {
			return w.at(join(path, key), "there is no such field%s", Unknown(key, FieldNames(md)))
		}
		if other := spelled[fd.Name()]; other != "" {
			return w.at(join(path, key), "it is there twice, as %s and as %s: give it once, as %s", other, key, fd.Name())
		}
		spelled[fd.Name()] = key
		if of := fd.ContainingOneof(); of != nil && !of.IsSynthetic() && tok != nil {
			if other := chosen[of.Name()]; other != "" {
				return w.at(join(path, key), "only one of it and %s is allowed", other)
			}
			chosen[of.Name()] = key
		}
		return w.field(tok, fd, join(path, key))
	})
}

// object reads the members of an object whose first token was read.
func (w *walker) object(path string, member func(key string, tok json.Token) *Problem) *Problem {
	if w.depth++; w.depth > maxDepth {
		return w.at(path, "it is nested deeper than %d levels", maxDepth)
	}
	defer func() { w.depth-- }()
	seen := map[string]bool{}
	for {
		tok, err := w.dec.Token()
		if err != nil {
			return w.syntax(err)
		}
		key, ok := tok.(string)
		if !ok {
			return nil // the closing bracket
		}
		if seen[key] {
			return w.at(join(path, key), "it is there twice: give it once")
		}
		seen[key] = true
		if tok, err = w.dec.Token(); err != nil {
			return w.syntax(err)
		}
		if p := member(key, tok); p != nil {
			return p
		}
	}
}

// field checks the value of a field.
func (w *walker) field(tok json.Token, fd protoreflect.FieldDescriptor, path string) *Problem {
	switch {
	case tok == nil:
		return nil
	case fd.IsMap():
		if tok != json.Delim('{') {
			return w.wrong(tok, path, "an object in { } of keys and values")
		}
		return w.object(path, func(key string, tok json.Token) *Problem {
			if why := Text(fd.MapKey(), key); why != "" {
				return w.at(path, "key %s", why)
			}
			return w.single(tok, fd.MapValue(), join(path, key))
		})
	case fd.IsList():
		if tok != json.Delim('[') {
			return w.wrong(tok, path, "a list in [ ]")
		}
		return w.elements(path, func(tok json.Token, at string) *Problem { return w.single(tok, fd, at) })
	}
	return w.single(tok, fd, path)
}

// elements reads the elements of a list whose first token was read.
func (w *walker) elements(path string, element func(tok json.Token, at string) *Problem) *Problem {
	if w.depth++; w.depth > maxDepth {
		return w.at(path, "it is nested deeper than %d levels", maxDepth)
	}
	defer func() { w.depth-- }()
	for i := 0; ; i++ {
		tok, err := w.dec.Token()
		switch {
		case err != nil:
			return w.syntax(err)
		case tok == json.Delim(']'):
			return nil
		}
		if p := element(tok, fmt.Sprintf("%s[%d]", path, i)); p != nil {
			return p
		}
	}
}

// single checks one value of a field.
func (w *walker) single(tok json.Token, fd protoreflect.FieldDescriptor, path string) *Problem {
	if md := fd.Message(); md != nil {
		if tok == nil {
			return w.wrong(tok, path, "an object in { }")
		}
		return w.message(tok, md, path)
	}
	text, isText := tok.(string)
	number, isNumber := tok.(json.Number)
	switch kind := fd.Kind(); {
	case kind == protoreflect.BoolKind:
		if _, ok := tok.(bool); !ok {
			return w.wrong(tok, path, "true or false, without quotes")
		}
		return nil
	case kind == protoreflect.StringKind, kind == protoreflect.BytesKind:
		if !isText {
			return w.wrong(tok, path, "a text in quotes")
		}
	case kind == protoreflect.EnumKind:
		if !isText && !isNumber {
			return w.wrong(tok, path, "a name in quotes")
		}
	case !isText && !isNumber:
		return w.wrong(tok, path, "a number")
	}
	if isNumber {
		text = number.String()
	}
	if why := Text(fd, text); why != "" && !isWhole(text, fd.Kind()) {
		return w.at(path, "%s", why)
	}
	return nil
}

// isWhole reports whether a text such as 1e3 or 5.0 is a whole number for the decoder.
func isWhole(text string, kind protoreflect.Kind) bool {
	digits, frac, dot := strings.Cut(text, ".")
	return dot && strings.Trim(frac, "0") == "" && integer(kind, digits) == "" && kind != protoreflect.StringKind
}

// wrong returns the problem of a value of another type.
func (w *walker) wrong(tok json.Token, path, want string) *Problem {
	is := ""
	switch v := tok.(type) {
	case nil:
		is = "null"
	case bool:
		is = fmt.Sprint(v)
	case json.Number:
		is = v.String()
	case string:
		is = Quote(v)
	case json.Delim:
		is = "an object"
		if v == '[' {
			is = "a list"
		}
	}
	if path == "" {
		return w.at(path, "it is %s, not %s", is, want)
	}
	return w.at(path, "%s is not %s", is, want)
}

// skip reads the rest of a value.
func (w *walker) skip(tok json.Token, path string) *Problem {
	switch tok {
	case json.Delim('{'):
		return w.object(path, func(key string, tok json.Token) *Problem { return w.skip(tok, join(path, key)) })
	case json.Delim('['):
		return w.elements(path, w.skip)
	}
	return nil
}

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

func first(names []string, n int) []string { return names[:min(n, len(names))] }

package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/internal/cli/fields"
	"github.com/holdfast-metal/holdfast/internal/misfit"
)

// maxNodes is the maximum size to which aliases can expand a document.
const maxNodes = 1_000_000

// writer converts a document to JSON for protojson. Each value stays on its line of the
// document, so the lines in protojson's errors are the user's.
type writer struct {
	buf   bytes.Buffer
	line  int
	nodes int
	depth int
}

// at moves to the node's line. An alias refers to earlier lines, so the position stays.
func (w *writer) at(n *yaml.Node) {
	for w.line < n.Line {
		w.buf.WriteByte('\n')
		w.line++
	}
}

// enter resolves aliases and counts nodes.
func (w *writer) enter(n *yaml.Node) (*yaml.Node, error) {
	line := n.Line
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if w.nodes++; w.nodes > maxNodes {
		return nil, &Error{Line: line, Msg: fmt.Sprintf("more than %d values", maxNodes)}
	}
	if w.depth++; w.depth > maxDepth {
		return nil, &Error{Line: line, Msg: fmt.Sprintf("nested deeper than %d levels", maxDepth)}
	}
	w.at(n)
	return n, nil
}

func (w *writer) leave() { w.depth-- }

// message writes a mapping as the message's JSON. The path is for errors: "spec", "steps".
func (w *writer) message(n *yaml.Node, md protoreflect.MessageDescriptor, path string) error {
	if isText(md) {
		return w.scalar(n, protoreflect.StringKind, path)
	}
	set := map[protoreflect.Name]string{} // the keys of alternatives
	return w.mapping(n, path, func(key *yaml.Node, value *yaml.Node) error {
		fd := fields.ByName(md, key.Value)
		if fd == nil {
			return unknownKey(key, md, path)
		}
		if of := fd.ContainingOneof(); of != nil && !of.IsSynthetic() && !isNull(value) {
			if other := set[of.Name()]; other != "" {
				return &Error{Line: key.Line, Msg: fmt.Sprintf("%s has %q and %q: only one of them is allowed",
					named(path), other, key.Value)}
			}
			set[of.Name()] = key.Value
		}
		return w.field(value, fd, join(path, key.Value))
	})
}

// unknownKey returns an error with the key, its place, and the most similar known key.
func unknownKey(key *yaml.Node, md protoreflect.MessageDescriptor, path string) error {
	msg := fmt.Sprintf("unknown key %q", key.Value)
	if path != "" {
		msg += fmt.Sprintf(" in %q", path)
	}
	msg += misfit.Unknown(key.Value, misfit.FieldNames(md))
	return &Error{Line: key.Line, Msg: msg}
}

// field writes the value of one field.
func (w *writer) field(n *yaml.Node, fd protoreflect.FieldDescriptor, path string) error {
	switch {
	case fd.IsMap():
		return w.mapping(n, path, func(key, value *yaml.Node) error {
			return w.single(value, fd.MapValue(), join(path, key.Value))
		})
	case fd.IsList():
		return w.list(n, fd, path)
	}
	return w.single(n, fd, path)
}

func (w *writer) single(n *yaml.Node, fd protoreflect.FieldDescriptor, path string) error {
	if md := fd.Message(); md != nil {
		return w.message(n, md, path)
	}
	return w.scalar(n, fd.Kind(), path)
}

func (w *writer) list(n *yaml.Node, fd protoreflect.FieldDescriptor, path string) error {
	n, err := w.enter(n)
	if err != nil {
		return err
	}
	defer w.leave()
	if isNull(n) {
		w.buf.WriteString("null")
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return &Error{Line: n.Line, Msg: fmt.Sprintf("%q must be a list", path)}
	}
	w.buf.WriteByte('[')
	for i, item := range n.Content {
		if i > 0 {
			w.buf.WriteByte(',')
		}
		if err := w.single(item, fd, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	w.buf.WriteByte(']')
	return nil
}

// mapping writes a mapping with its keys unchanged; value writes each value.
func (w *writer) mapping(n *yaml.Node, path string, value func(key, value *yaml.Node) error) error {
	n, err := w.enter(n)
	if err != nil {
		return err
	}
	defer w.leave()
	if isNull(n) && path != "" {
		w.buf.WriteString("null")
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return &Error{Line: n.Line, Msg: named(path) + " must be a mapping of keys to values"}
	}
	seen := make(map[string]int, len(n.Content)/2)
	w.buf.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			return &Error{Line: key.Line, Msg: fmt.Sprintf("key %q is not supported: write it out", key.Value)}
		}
		if line, dup := seen[key.Value]; dup {
			return &Error{Line: key.Line, Msg: fmt.Sprintf("duplicate key %q: first on line %d",
				join(path, key.Value), line)}
		}
		seen[key.Value] = key.Line
		if i > 0 {
			w.buf.WriteByte(',')
		}
		w.at(key)
		w.quoted(key.Value)
		w.buf.WriteByte(':')
		if err := value(key, n.Content[i+1]); err != nil {
			return err
		}
	}
	w.buf.WriteByte('}')
	return nil
}

// scalar writes a value in the form that protojson reads as the user meant it: a rack called 07
// is text.
func (w *writer) scalar(n *yaml.Node, kind protoreflect.Kind, path string) error {
	n, err := w.enter(n)
	if err != nil {
		return err
	}
	defer w.leave()
	if n.Kind != yaml.ScalarNode {
		return &Error{Line: n.Line, Msg: fmt.Sprintf("%q must be a single value", path)}
	}
	switch {
	case isNull(n):
		w.buf.WriteString("null")
	case kind == protoreflect.StringKind || kind == protoreflect.BytesKind:
		w.quoted(n.Value)
	case n.Tag == "!!bool":
		w.buf.WriteString(strings.ToLower(n.Value))
	case n.Tag == "!!int":
		v, err := strconv.ParseInt(n.Value, 0, 64)
		switch {
		case err == nil && strconv.FormatInt(v, 10) != n.Value: // YAML 1.1 reads 010 as 8, YAML 1.2 as 10
			return &Error{Line: n.Line, Msg: fmt.Sprintf("%s: %q is not written as a decimal number: "+
				"write digits alone, without 0x, + or a zero before them", path, n.Value)}
		case err == nil:
			w.buf.WriteString(n.Value)
			return nil
		}
		w.quoted(n.Value)
	default:
		w.quoted(n.Value)
	}
	return nil
}

func (w *writer) quoted(s string) {
	// Marshal of a string does not fail: invalid UTF-8 is replaced.
	b, _ := json.Marshal(s)
	w.buf.Write(b)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// isText lists the messages that JSON writes as text.
func isText(md protoreflect.MessageDescriptor) bool {
	switch md.FullName() {
	case "google.protobuf.Timestamp", "google.protobuf.Duration", "google.protobuf.FieldMask":
		return true
	}
	return false
}

// named returns a path for messages.
func named(path string) string {
	if path == "" {
		return "a document"
	}
	return strconv.Quote(path)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

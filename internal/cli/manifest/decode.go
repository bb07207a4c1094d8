package manifest

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/misfit"
)

// Source is the content of a file.
type Source struct {
	File string // for errors; "-" is standard input
	Data []byte
}

// Decode reads every document of the sources: YAML documents separated by ---, JSON values, lists
// of them, and objects whose only key is list (the output of the command line, e.g. {"machines":
// […]}). A source without documents is an error. Errors are *Error.
func Decode[M proto.Message](sources []Source, list string, empty func() M) ([]M, error) {
	var out []M
	for _, s := range sources {
		read, err := decode(s.Data, list, empty)
		if err != nil {
			return nil, locate(s.File, err)
		}
		out = append(out, read...)
	}
	return out, nil
}

func decode[M proto.Message](data []byte, list string, empty func() M) ([]M, error) {
	docs, err := parse(data)
	if err != nil {
		return nil, err
	}
	var out []M
	for _, doc := range docs {
		for _, n := range expand(doc, list) {
			m := empty()
			if err := decodeOne(n, m); err != nil {
				return nil, err
			}
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return nil, errNoDocument()
	}
	return out, nil
}

func errNoDocument() error {
	return &Error{Msg: "there is no document in it: see: holdfast explain machine"}
}

// parse returns the top value of each document.
func parse(data []byte) ([]*yaml.Node, error) {
	var jsonErr error
	if t := bytes.TrimSpace(data); len(t) > 0 && (t[0] == '{' || t[0] == '[') {
		docs, err := parseJSON(data)
		if err == nil {
			return docs, nil
		}
		// It may still be YAML in flow style.
		jsonErr = err
	}
	var docs []*yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil && jsonErr != nil:
			return nil, jsonErr
		case err != nil:
			return nil, err
		}
		if len(doc.Content) == 1 && !isNull(doc.Content[0]) {
			docs = append(docs, doc.Content[0])
		}
	}
}

// expand returns the elements of a list, bare or under its key.
func expand(n *yaml.Node, list string) []*yaml.Node {
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 && n.Content[0].Value == list &&
		n.Content[1].Kind == yaml.SequenceNode {
		n = n.Content[1]
	}
	if n.Kind == yaml.SequenceNode {
		return n.Content
	}
	return []*yaml.Node{n}
}

func decodeOne(n *yaml.Node, m proto.Message) error {
	w := &writer{line: 1}
	if err := w.message(n, m.ProtoReflect().Descriptor(), ""); err != nil {
		return err
	}
	err := protojson.Unmarshal(w.buf.Bytes(), m)
	if err == nil {
		return nil
	}
	if p := misfit.JSON(w.buf.Bytes(), m.ProtoReflect().Descriptor()); p != nil {
		return &Error{Line: p.Line, Msg: p.Error()}
	}
	return &Error{Line: n.Line, Msg: "a value does not fit its field: see: holdfast explain"} // no such value is known
}

// locate converts any error to an *Error: those of the YAML parser, and our own.
func locate(file string, err error) error {
	if own, ok := errors.AsType[*Error](err); ok {
		own.File = file
		return own
	}
	if line, why, ok := misfit.YAML(err); ok {
		return &Error{File: file, Line: line, Msg: why}
	}
	return &Error{File: file, Msg: err.Error()}
}

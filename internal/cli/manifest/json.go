package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxDepth is the maximum nesting of a document. The API's messages need six levels.
const maxDepth = 50

// parseJSON converts a sequence of JSON values to YAML nodes: YAML itself would refuse tabs,
// surrogate pairs and values in sequence.
func parseJSON(data []byte) ([]*yaml.Node, error) {
	p := &jsonParser{dec: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1}
	p.dec.UseNumber()
	var docs []*yaml.Node
	for {
		tok, err := p.dec.Token()
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		var n *yaml.Node
		if err == nil {
			n, err = p.value(tok, 0)
		}
		if err != nil {
			return nil, p.failed(err)
		}
		docs = append(docs, n)
	}
}

type jsonParser struct {
	dec  *json.Decoder
	data []byte
	at   int // the offset up to which lines are counted
	line int
}

// here returns the line of the last token.
func (p *jsonParser) here() int {
	end := int(p.dec.InputOffset())
	p.line += bytes.Count(p.data[p.at:end], []byte("\n"))
	p.at = end
	return p.line
}

func (p *jsonParser) failed(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := 1 + bytes.Count(p.data[:min(int(syntax.Offset), len(p.data))], []byte("\n"))
		return &Error{Line: line, Msg: "invalid JSON: " + unexpected(p.data, syntax.Offset)}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Error{Line: p.here(), Msg: "invalid JSON: it ends in the middle of a value"}
	}
	return err
}

func (p *jsonParser) value(tok json.Token, depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, &Error{Line: p.here(), Msg: fmt.Sprintf("nested deeper than %d levels", maxDepth)}
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: p.here()}
	switch v := tok.(type) {
	case nil:
		n.Tag, n.Value = "!!null", "null"
	case bool:
		n.Tag, n.Value = "!!bool", fmt.Sprint(v)
	case json.Number:
		n.Tag, n.Value = "!!float", v.String()
		if _, err := v.Int64(); err == nil {
			n.Tag = "!!int"
		}
	case string:
		n.Tag, n.Value = "!!str", v
	case json.Delim:
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		if v == '[' {
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		}
		return n, p.content(n, depth)
	}
	return n, nil
}

// content reads the contents of an object (keys and values in turn) or an array.
func (p *jsonParser) content(n *yaml.Node, depth int) error {
	for p.dec.More() {
		tok, err := p.dec.Token()
		if err != nil {
			return err
		}
		child, err := p.value(tok, depth+1)
		if err != nil {
			return err
		}
		n.Content = append(n.Content, child)
	}
	_, err := p.dec.Token() // the closing bracket
	return err
}

// unexpected returns the character at which a text stops to be JSON.
func unexpected(data []byte, offset int64) string {
	if offset < 1 || int(offset) > len(data) {
		return "it ends in the middle of a value"
	}
	r, _ := utf8.DecodeRune(data[offset-1:])
	return fmt.Sprintf("unexpected %q", r)
}

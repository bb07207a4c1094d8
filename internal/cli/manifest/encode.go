package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// JSON formats a message on one line, with the API's names. Unset values are included (a
// condition's "status": false), except messages.
func JSON(m proto.Message) ([]byte, error) {
	return marshal(m, protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true})
}

// Brief formats a message as JSON without unset values.
func Brief(m proto.Message) ([]byte, error) {
	return marshal(m, protojson.MarshalOptions{UseProtoNames: true})
}

func marshal(m proto.Message, how protojson.MarshalOptions) ([]byte, error) {
	raw, err := how.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	// protojson varies its spaces on purpose.
	var buf bytes.Buffer
	if err := json.Compact(&buf, raw); err != nil {
		return nil, fmt.Errorf("write %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return render.Escaped(buf.Bytes()), nil
}

// List formats messages as one JSON object with one key: {"machines":[…]}.
func List[M proto.Message](key string, items []M) ([]byte, error) {
	var buf bytes.Buffer
	fmt.Fprintf(&buf, "{%q:[", key)
	for i, m := range items {
		if i > 0 {
			buf.WriteByte(',')
		}
		b, err := JSON(m)
		if err != nil {
			return nil, err
		}
		buf.Write(b)
	}
	buf.WriteString("]}")
	return buf.Bytes(), nil
}

// Indent formats JSON with indentation and a final line break.
func Indent(raw []byte) ([]byte, error) {
	var buf bytes.Buffer
	if err := json.Indent(&buf, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("indent JSON: %w", err)
	}
	buf.WriteByte('\n')
	return buf.Bytes(), nil
}

// YAML converts JSON to YAML, in the same order.
func YAML(raw []byte) ([]byte, error) {
	docs, err := parseJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	for _, d := range docs {
		quoteOdd(d)
		if err := enc.Encode(d); err != nil {
			return nil, fmt.Errorf("write YAML: %w", err)
		}
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return buf.Bytes(), nil
}

// quoteOdd uses double quotes for text that the block style would change: with tabs, other
// control characters, or spaces at the start of a line. Others read a plain ON or OFF as a boolean,
// as YAML 1.1 does.
func quoteOdd(n *yaml.Node) {
	for _, c := range n.Content {
		quoteOdd(c)
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		return
	}
	odd := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
	if strings.ContainsFunc(n.Value, odd) || isSwitch(n.Value) ||
		strings.Contains("\n"+n.Value, "\n ") || strings.HasPrefix(n.Value, "\n") {
		n.Style = yaml.DoubleQuotedStyle
	}
}

// isSwitch reports whether YAML 1.1 has a text as a boolean and YAML 1.2 does not.
func isSwitch(text string) bool {
	return slices.Contains([]string{"on", "off", "yes", "no", "y", "n"}, strings.ToLower(text))
}

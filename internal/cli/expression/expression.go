package expression

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
)

// Kinds of expressions.
const (
	JSONPath   = "jsonpath"
	GoTemplate = "go-template"
)

// Kinds lists the kinds.
func Kinds() []string { return []string{JSONPath, GoTemplate, CustomColumns} }

// Expression is a parsed expression.
type Expression struct {
	execute  func(w io.Writer, data any) error
	path     *jsonpath.ListNode // nil for a template
	template *template.Template // nil for a path
}

// Parse parses an expression. JSONPath is that of kubectl: text with paths in braces, {range
// …}{end}, filters; a single path may omit the braces and the dot. A Go template is one of
// text/template.
func Parse(kind, text string) (*Expression, error) {
	if text == "" {
		return nil, fmt.Errorf("%s=: the expression is missing, such as %s", kind,
			map[string]string{JSONPath: "jsonpath='{.machine_id}'", GoTemplate: "go-template='{{.machine_id}}'"}[kind])
	}
	if kind == GoTemplate {
		t, err := template.New(GoTemplate).Parse(text)
		if err != nil {
			return nil, fmt.Errorf("parse the template: %w", err)
		}
		return &Expression{execute: t.Execute, template: t}, nil
	}
	p := jsonpath.New(JSONPath).AllowMissingKeys(true)
	if err := p.Parse(braced(text)); err != nil {
		return nil, fmt.Errorf("parse the path: %w", err)
	}
	tree, err := jsonpath.Parse(JSONPath, braced(text))
	if err != nil {
		return nil, fmt.Errorf("parse the path: %w", err)
	}
	return &Expression{execute: p.Execute, path: tree.Root}, nil
}

// braced adds braces to a single path.
func braced(text string) string {
	if strings.ContainsAny(text, "{}") {
		return text
	}
	return "{." + strings.TrimPrefix(text, ".") + "}"
}

// Execute prints the result of the expression for a document, with a final newline.
func (e *Expression) Execute(w io.Writer, document []byte) error {
	var data any
	if err := json.Unmarshal(document, &data); err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	var b bytes.Buffer
	if err := e.execute(&b, data); err != nil {
		return fmt.Errorf("evaluate: %w", err)
	}
	if b.Len() > 0 && !bytes.HasSuffix(b.Bytes(), []byte("\n")) {
		b.WriteByte('\n')
	}
	_, err := w.Write(b.Bytes())
	return err
}

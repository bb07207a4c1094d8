package expression

import (
	"bytes"
	"fmt"
	"strings"
)

// CustomColumns is the kind of a table whose columns are paths.
const CustomColumns = "custom-columns"

// Column is a column of a table: a header and the path of its values.
type Column struct {
	Header string
	path   *Expression
}

// Columns parses columns as in kubectl: HEADER:PATH, comma-separated.
func Columns(text string) ([]Column, error) {
	var all []Column
	for part := range strings.SplitSeq(text, ",") {
		header, path, ok := strings.Cut(part, ":")
		if !ok || header == "" || path == "" {
			return nil, fmt.Errorf("%q is not HEADER:PATH, such as %s=ID:.machine_id,RACK:.spec.rack", part, CustomColumns)
		}
		e, err := Parse(JSONPath, path)
		if err != nil {
			return nil, err
		}
		all = append(all, Column{header, e})
	}
	return all, nil
}

// Value returns the column's value for a document, in one line.
func (c Column) Value(document []byte) (string, error) {
	var b bytes.Buffer
	if err := c.path.Execute(&b, document); err != nil {
		return "", err
	}
	return strings.Join(strings.Fields(b.String()), " "), nil
}

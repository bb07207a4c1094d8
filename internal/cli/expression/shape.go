package expression

import (
	"fmt"

	"k8s.io/client-go/util/jsonpath"
)

// Shape is the form of a document, or of a value in it. A list has the shape of its elements.
type Shape struct {
	Open  bool                             // it may have any fields, as a map has
	Field func(name string) (Shape, error) // nil: a value without fields
}

// below returns the shape of a field.
func (s Shape) below(name string) (Shape, error) {
	switch {
	case s.Open:
		return s, nil
	case s.Field == nil:
		return s, fmt.Errorf("there is nothing below the value that %q is looked up in", name)
	}
	return s.Field(name)
}

// Check returns an error for the first path of an expression that no document of a shape has. Parts
// that select by a pattern, and values of functions, are not checked.
func (e *Expression) Check(of Shape) error {
	if e.template != nil {
		return checkTemplate(e.template, of)
	}
	_, err := follow(e.path.Nodes, of, of)
	return err
}

// Check returns an error if no document of a shape has the path of a column.
func (c Column) Check(of Shape) error {
	if err := c.path.Check(of); err != nil {
		return fmt.Errorf("column %s: %w", c.Header, err)
	}
	return nil
}

// follow follows nodes from a value of a shape, and returns the shape that they lead to.
func follow(nodes []jsonpath.Node, at, top Shape) (Shape, error) {
	start := at
	for _, n := range nodes {
		var err error
		switch n := n.(type) {
		case *jsonpath.ListNode: // {…}
			var to Shape
			if to, err = follow(n.Nodes, start, top); err == nil && isRange(n) {
				start = to
			}
		case *jsonpath.IdentifierNode:
			if n.Name == "end" {
				start = top
			}
		case *jsonpath.FieldNode:
			if n.Value != "" {
				at, err = at.below(n.Value)
			}
		case *jsonpath.FilterNode:
			_, err = follow(n.Left.Nodes, at, top)
		case *jsonpath.WildcardNode, *jsonpath.RecursiveNode, *jsonpath.UnionNode:
			at = Shape{Open: true}
		}
		if err != nil {
			return at, err
		}
		if list, ok := n.(*jsonpath.ListNode); ok && len(list.Nodes) == 1 {
			if id, ok := list.Nodes[0].(*jsonpath.IdentifierNode); ok && id.Name == "end" {
				start = top
			}
		}
	}
	return at, nil
}

// isRange reports whether a list of nodes begins a range.
func isRange(n *jsonpath.ListNode) bool {
	if len(n.Nodes) == 0 {
		return false
	}
	id, ok := n.Nodes[0].(*jsonpath.IdentifierNode)
	return ok && id.Name == "range"
}

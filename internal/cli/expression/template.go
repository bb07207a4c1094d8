package expression

import (
	"slices"
	"text/template"
	"text/template/parse"
)

// checkTemplate returns an error for the first field of a Go template that no document of a shape
// has. Values of functions are not checked, except those of index.
func checkTemplate(t *template.Template, of Shape) error {
	if t.Tree == nil {
		return nil
	}
	w := walker{all: t, vars: map[string]Shape{"$": of}}
	return w.list(t.Root, of)
}

// walker follows the fields of a template. A variable keeps the shape of its last assignment.
type walker struct {
	all     *template.Template
	vars    map[string]Shape
	entered []string // names of the templates that are being followed, which may call themselves
}

func (w *walker) list(l *parse.ListNode, dot Shape) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if err := w.node(n, dot); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) node(n parse.Node, dot Shape) error {
	switch n := n.(type) {
	case *parse.ActionNode:
		_, err := w.pipe(n.Pipe, dot)
		return err
	case *parse.IfNode:
		return w.branch(&n.BranchNode, dot, false)
	case *parse.WithNode:
		return w.branch(&n.BranchNode, dot, true)
	case *parse.RangeNode:
		return w.branch(&n.BranchNode, dot, true)
	case *parse.TemplateNode:
		return w.call(n, dot)
	}
	return nil
}

// branch follows if, with and range. The elements of a list have the shape of the list.
func (w *walker) branch(b *parse.BranchNode, dot Shape, moves bool) error {
	to, err := w.pipe(b.Pipe, dot)
	if err != nil {
		return err
	}
	inner := dot
	if moves {
		inner = to
	}
	if err := w.list(b.List, inner); err != nil {
		return err
	}
	return w.list(b.ElseList, dot)
}

// call follows a template that this one calls.
func (w *walker) call(n *parse.TemplateNode, dot Shape) error {
	to, err := w.pipe(n.Pipe, dot)
	if err != nil {
		return err
	}
	t := w.all.Lookup(n.Name)
	if t == nil || t.Tree == nil || slices.Contains(w.entered, n.Name) {
		return nil
	}
	inner := walker{all: w.all, vars: map[string]Shape{"$": to}, entered: append(slices.Clip(w.entered), n.Name)}
	return inner.list(t.Root, to)
}

// pipe returns the shape of the value of a pipeline, which is that of its last command.
func (w *walker) pipe(p *parse.PipeNode, dot Shape) (Shape, error) {
	at := Shape{Open: true}
	if p == nil {
		return at, nil
	}
	for _, c := range p.Cmds {
		var err error
		if at, err = w.command(c, dot); err != nil {
			return at, err
		}
	}
	for i, v := range p.Decl {
		w.vars[v.Ident[0]] = at
		if len(p.Decl) == 2 && i == 0 { // of a range: an index or a key
			w.vars[v.Ident[0]] = Shape{Open: true}
		}
	}
	return at, nil
}

func (w *walker) command(c *parse.CommandNode, dot Shape) (Shape, error) {
	var first Shape
	for i, arg := range c.Args {
		at, err := w.value(arg, dot)
		if err != nil {
			return at, err
		}
		if i == 0 || i == 1 && isIndex(c.Args) {
			first = at
		}
	}
	return first, nil
}

// isIndex reports whether a command is an element of a list: index LIST NUMBER.
func isIndex(args []parse.Node) bool {
	name, ok := args[0].(*parse.IdentifierNode)
	if !ok || name.Ident != "index" || len(args) != 3 {
		return false
	}
	_, number := args[2].(*parse.NumberNode)
	return number
}

func (w *walker) value(n parse.Node, dot Shape) (Shape, error) {
	switch n := n.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.FieldNode:
		return below(dot, n.Ident)
	case *parse.VariableNode:
		at, ok := w.vars[n.Ident[0]]
		if !ok {
			at = Shape{Open: true}
		}
		return below(at, n.Ident[1:])
	case *parse.ChainNode:
		at, err := w.value(n.Node, dot)
		if err != nil {
			return at, err
		}
		return below(at, n.Field)
	case *parse.PipeNode:
		return w.pipe(n, dot)
	}
	return Shape{Open: true}, nil
}

// below returns the shape at the end of a path of fields.
func below(at Shape, names []string) (Shape, error) {
	for _, name := range names {
		var err error
		if at, err = at.below(name); err != nil {
			return at, err
		}
	}
	return at, nil
}

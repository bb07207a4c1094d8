package filter

import (
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Filter is a compiled filter. It is safe for concurrent use.
type Filter struct{ root node }

// Compile parses a filter. An empty filter matches everything. The error is an *Error.
func Compile(schema *Schema, text string) (*Filter, error) {
	p := &parser{text: text, schema: schema}
	if len(text) > MaxLength {
		return nil, p.errorf(MaxLength, "filter has %d bytes, at most %d are allowed", len(text), MaxLength)
	}
	if !utf8.ValidString(text) {
		return nil, p.errorf(0, "filter is not UTF-8")
	}
	if strings.TrimSpace(text) == "" {
		return &Filter{root: and{}}, nil
	}
	root, err := p.expression()
	if err != nil {
		return nil, err
	}
	if !p.done() {
		return nil, p.errorf(p.at, "parenthesis was not opened")
	}
	return &Filter{root: root}, nil
}

// Match reports whether a message of the schema's type matches.
func (f *Filter) Match(m proto.Message) bool { return f.root.eval(m.ProtoReflect(), false) == yes }

// Possible reports whether the message could match at some point of its life. Only
// comparisons of fields that never change are evaluated.
func (f *Filter) Possible(m proto.Message) bool { return f.root.eval(m.ProtoReflect(), true) != no }

// Fixed reports whether a match is permanent: no compared field changes during a message's
// life.
func (f *Filter) Fixed() bool {
	return f.root.every(func(c *comparison) bool { return c.field.fixed })
}

// Pinned returns the only value that the field at path can have in a match, if the filter
// demands one.
func (f *Filter) Pinned(path string) (string, bool) { return f.root.pinned(path) }

// truth is the result of an evaluation. It is maybe if the result can change.
type truth int

const (
	no truth = iota
	maybe
	yes
)

// node is a part of a filter.
type node interface {
	// eval evaluates the node. If later is set, comparisons of mutable fields are maybe.
	eval(m protoreflect.Message, later bool) truth
	// every reports whether f holds for all comparisons.
	every(f func(*comparison) bool) bool
	pinned(path string) (string, bool)
	narrowing
}

type and []node

func (a and) eval(m protoreflect.Message, later bool) truth {
	all := yes
	for _, n := range a {
		if all = min(all, n.eval(m, later)); all == no {
			break
		}
	}
	return all
}

func (a and) every(f func(*comparison) bool) bool { return everyOf(a, f) }

func (a and) pinned(path string) (string, bool) {
	for _, n := range a {
		if v, ok := n.pinned(path); ok {
			return v, true
		}
	}
	return "", false
}

type or []node

func (o or) eval(m protoreflect.Message, later bool) truth {
	best := no
	for _, n := range o {
		if best = max(best, n.eval(m, later)); best == yes {
			break
		}
	}
	return best
}

func (o or) every(f func(*comparison) bool) bool { return everyOf(o, f) }

func (o or) pinned(path string) (string, bool) {
	if len(o) == 1 {
		return o[0].pinned(path)
	}
	return "", false
}

type not struct{ node }

func (n not) eval(m protoreflect.Message, later bool) truth { return yes - n.node.eval(m, later) }

func (n not) pinned(string) (string, bool) { return "", false }

func everyOf(nodes []node, f func(*comparison) bool) bool {
	return !slices.ContainsFunc(nodes, func(n node) bool { return !n.every(f) })
}

package filter

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Filter is a compiled filter. It is safe for concurrent use.
type Filter struct{ root node }

// Compile reads a filter. The empty one matches everything. The error is an *Error.
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

// Possible reports whether the message could match at another time of its life: only comparisons of
// fields that never change are decided.
func (f *Filter) Possible(m proto.Message) bool { return f.root.eval(m.ProtoReflect(), true) != no }

// Fixed reports whether a message that matches does so for its whole life.
func (f *Filter) Fixed() bool { return f.root.fixed() }

// Pinned returns the one value that a field must have for a message to match, if the filter says
// so.
func (f *Filter) Pinned(path string) (string, bool) { return f.root.pinned(path) }

// truth has a value for what cannot be told.
type truth int

const (
	no truth = iota
	maybe
	yes
)

// node is a part of a filter.
type node interface {
	// eval evaluates; with later set, comparisons of fields that may change are maybe.
	eval(m protoreflect.Message, later bool) truth
	fixed() bool
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

func (a and) fixed() bool { return allFixed(a) }

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

func (o or) fixed() bool { return allFixed(o) }

func (o or) pinned(path string) (string, bool) {
	if len(o) == 1 {
		return o[0].pinned(path)
	}
	return "", false
}

type not struct{ node }

func (n not) eval(m protoreflect.Message, later bool) truth { return yes - n.node.eval(m, later) }

func (n not) pinned(string) (string, bool) { return "", false }

func allFixed(nodes []node) bool {
	for _, n := range nodes {
		if !n.fixed() {
			return false
		}
	}
	return true
}

package display

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/describe"
)

// Cell is the content of a cell of a table: texts, links and times.
type Cell struct {
	Parts []Part
	Class string // num: a number; why: long text; id: an identifier
}

// Part is a part of a cell. Exactly one of Text, At and Since is set.
type Part struct {
	Text  string
	Link  string // the text links to this page
	State string // the text is a label with this CSS class, such as s-failed
	Faint bool
	Code  bool // the text is a command
	At    *timestamppb.Timestamp
	Since *timestamppb.Timestamp // shown as the time since then
}

// Empty reports whether a cell has no content.
func (c Cell) Empty() bool { return len(c.Parts) == 0 }

// And returns a cell with the parts of both.
func (c Cell) And(more Cell) Cell {
	c.Parts = append(slices.Clip(c.Parts), more.Parts...)
	return c
}

// Text returns a cell with a text, which may be empty.
func Text(s string) Cell {
	if s == "" {
		return Cell{}
	}
	return Cell{Parts: []Part{{Text: s}}}
}

// ID returns a cell with an identifier.
func ID(s string) Cell {
	c := Text(s)
	c.Class = "id"
	return c
}

// Long returns a cell with a text that may be a sentence or more.
func Long(s string) Cell {
	c := Text(s)
	c.Class = "why"
	return c
}

// Number returns a cell with a number. Zero is shown as 0.
func Number[N int | int32 | int64 | uint32 | uint64](n N) Cell {
	return Cell{Class: "num", Parts: []Part{{Text: describe.Count(int(n))}}}
}

// When returns a cell with a time, which may be nil.
func When(at *timestamppb.Timestamp) Cell {
	if at == nil {
		return Cell{}
	}
	return Cell{Parts: []Part{{At: at}}}
}

// For returns a cell with the time since another, which may be nil.
func For(since *timestamppb.Timestamp) Cell {
	if since == nil {
		return Cell{}
	}
	return Cell{Parts: []Part{{Since: since}}}
}

// Faint returns a cell with an additional remark.
func Faint(s string) Cell {
	if s == "" {
		return Cell{}
	}
	return Cell{Parts: []Part{{Text: s, Faint: true}}}
}

// Command returns a cell with a command.
func Command(s string) Cell {
	if s == "" {
		return Cell{}
	}
	return Cell{Class: "why", Parts: []Part{{Text: s, Code: true}}}
}

// Badge returns a cell with a state and the state of machines and runs whose colour it has:
// active, failed, maintenance, or none.
func Badge(text, like string) Cell {
	return Cell{Parts: []Part{{Text: text, State: strings.TrimSpace("state s-" + like)}}}
}

// State returns a cell with a state in its colour.
func State(v fmt.Stringer) Cell { return Badge(Label(v), strings.ToLower(describe.Enum(v))) }

// To returns a cell with a link; empty without a text.
func To(text, link string) Cell {
	if text == "" {
		return Cell{}
	}
	return Cell{Class: "id", Parts: []Part{{Text: text, Link: link}}}
}

// Machines returns a cell with links to machines.
func Machines(ids ...string) Cell {
	c := Cell{}
	for _, id := range ids {
		c = c.And(To(id, MachinePath(id)))
	}
	return c
}

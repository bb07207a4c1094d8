package filter

import (
	"slices"
	"strings"
)

// Terms are conditions that every match meets: one value at a path, all of several terms,
// or any of several. Exactly one of the three is set. The path of an element that is
// addressed by its key ends with that key (status.conditions.Reachable).
type Terms struct {
	Path, Value string
	All, Any    []Terms
}

// narrowing derives facts about all matches without evaluating a message.
type narrowing interface {
	// terms returns conditions that all matches meet, or false if it knows none.
	terms(indexed func(path, value string) bool) (Terms, bool)
	// needs appends texts that occur in the strings of all matches.
	needs(stored func(path string) bool, texts []string) []string
}

// Terms returns conditions that every match meets and that an index can answer. It returns
// false if all messages have to be evaluated.
func (f *Filter) Terms(indexed func(path, value string) bool) (Terms, bool) {
	return f.root.terms(indexed)
}

// Texts returns texts that occur in every match. Each is part of a string at a stored path.
func (f *Filter) Texts(stored func(path string) bool) []string { return f.root.needs(stored, nil) }

// Only reports whether the filter compares stored fields only.
func (f *Filter) Only(stored func(path string) bool) bool {
	return f.root.every(func(c *comparison) bool { return stored(c.path) })
}

func (a and) terms(indexed func(path, value string) bool) (Terms, bool) {
	var all []Terms
	for _, n := range a {
		if t, ok := n.terms(indexed); ok {
			all = append(all, t)
		}
	}
	if len(all) == 1 {
		return all[0], true
	}
	return Terms{All: all}, len(all) > 0
}

func (o or) terms(indexed func(path, value string) bool) (Terms, bool) {
	var some []Terms
	for _, n := range o {
		t, ok := n.terms(indexed)
		if !ok {
			return Terms{}, false
		}
		some = append(some, t)
	}
	if len(some) == 1 {
		return some[0], true
	}
	return Terms{Any: some}, true
}

func (n not) terms(func(path, value string) bool) (Terms, bool) { return Terms{}, false }

func (c *comparison) terms(indexed func(path, value string) bool) (Terms, bool) {
	if c.demands == nil || c.lost {
		return Terms{}, false
	}
	t := Terms{Path: c.termPath(), Value: *c.demands}
	return t, indexed(t.Path, t.Value)
}

// termPath returns the path, including the keys of map entries and elements.
func (c *comparison) termPath() string {
	var names []string
	for i, s := range c.steps {
		if i > 0 && c.steps[i-1].by != nil {
			continue // the value of an element: its key is enough
		}
		names = append(names, s.fd.TextName())
		switch {
		case s.key != nil:
			names = append(names, *s.key)
		case s.by != nil:
			names = append(names, s.name)
		}
	}
	return strings.Join(names, ".")
}

func (a and) needs(stored func(path string) bool, texts []string) []string {
	for _, n := range a {
		texts = n.needs(stored, texts)
	}
	return texts
}

func (o or) needs(stored func(path string) bool, texts []string) []string {
	if len(o) == 1 {
		return o[0].needs(stored, texts)
	}
	return texts
}

func (n not) needs(_ func(path string) bool, texts []string) []string { return texts }

func (c *comparison) needs(stored func(path string) bool, texts []string) []string {
	if c.holds == "" || c.lost || !stored(c.path) {
		return texts
	}
	return append(texts, c.holds)
}

// demand records the only matching value.
func (c *comparison) demand(value string) {
	if c.op == opEqual || c.op == opHas {
		c.demands = &value
	}
}

// texts records the substring, and if possible the only value, of matching texts.
func (c *comparison) texts(parts []string) {
	if c.op != opEqual && c.op != opHas {
		return
	}
	c.holds = slices.MaxFunc(parts, func(a, b string) int { return len(a) - len(b) })
	if len(parts) > 1 {
		return
	}
	c.demand(parts[0])
	if c.op == opEqual {
		c.exact = parts[0]
	}
}

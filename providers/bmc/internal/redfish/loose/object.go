package loose

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Object is a JSON object. The zero value has no properties. The notes of odd properties are shared
// with the objects inside; an Object is not safe for concurrent use.
type Object struct {
	props map[string]any
	at    string // name of the object inside its resource, with a dot, or empty
	odd   *notes
}

// notes lists odd properties.
type notes struct{ names []string }

// maxOdd bounds the notes of one resource.
const maxOdd = 16

// Odd returns the properties that were asked for and could not be read, such as
// "Links.Chassis". A missing property, null, and a placeholder such as "N/A" are not odd: the
// service does not report them.
func (o Object) Odd() []string {
	if o.odd == nil {
		return nil
	}
	return slices.Clone(o.odd.names)
}

// Empty reports whether the object has no properties.
func (o Object) Empty() bool { return len(o.props) == 0 }

// Has reports whether a property is there and not null.
func (o Object) Has(name string) bool { return o.value(name) != nil }

// Names returns the names of all properties, sorted.
func (o Object) Names() []string { return slices.Sorted(maps.Keys(o.props)) }

// value returns a property. Vendors differ in the case of names: the exact name comes first.
func (o Object) value(name string) any {
	if v, ok := o.props[name]; ok {
		return v
	}
	found := ""
	for k := range o.props {
		if strings.EqualFold(k, name) && (found == "" || k < found) {
			found = k
		}
	}
	return o.props[found]
}

// Doubt lists a property as odd, because its value is impossible.
func (o Object) Doubt(name string) { o.note(name) }

// note lists a property as odd.
func (o Object) note(name string) {
	name = o.at + name
	if o.odd != nil && len(o.odd.names) < maxOdd && !slices.Contains(o.odd.names, name) {
		o.odd.names = append(o.odd.names, name)
	}
}

// Text returns a property as trimmed text, or "". Numbers and booleans become text as they are
// written.
func (o Object) Text(name string) string {
	s, ok := textOf(o.value(name))
	if !ok {
		o.note(name)
	}
	return s
}

// Word returns a word of a schema. If it is one of words in another spelling, such as ON or
// os_running, it is returned as in words; a word that is none of them is returned as it is. A
// placeholder is no word.
func (o Object) Word(name string, words ...string) string {
	s := o.Text(name)
	for _, w := range words {
		if SameWord(s, w) {
			return w
		}
	}
	if placeholder(s) {
		return ""
	}
	return s
}

// SameWord reports whether two words of a schema are the same in another spelling: services differ
// in case, and in blanks and dashes between the parts of a word.
func SameWord(a, b string) bool { return plainWord(a) == plainWord(b) }

func plainWord(s string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "_", "", "-", "").Replace(s))
}

// Number returns a number, which may be in quotes.
func (o Object) Number(name string) (f float64, ok bool) {
	s, isText := textOf(o.value(name))
	f, err := strconv.ParseFloat(s, 64)
	if err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
		return f, true
	}
	if !isText || !placeholder(s) {
		o.note(name)
	}
	return 0, false
}

// Count returns a number that cannot be negative, such as a size in bytes, without its fraction.
func (o Object) Count(name string) (n int64, ok bool) {
	if s, isText := textOf(o.value(name)); isText {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
			return n, true
		}
	}
	f, ok := o.Number(name)
	if ok && (f < 0 || f >= math.MaxInt64) {
		o.note(name)
		return 0, false
	}
	return int64(f), ok
}

// Flag returns a boolean, which may be text or a number. set is false if it is none.
func (o Object) Flag(name string) (on, set bool) {
	s, isText := textOf(o.value(name))
	switch strings.ToLower(s) {
	case "true", "yes", "1", "on", "enabled":
		return true, true
	case "false", "no", "0", "off", "disabled":
		return false, true
	}
	if !isText || !placeholder(s) {
		o.note(name)
	}
	return false, false
}

// Words returns a list of words, such as allowable values. It may be a single text, with the words
// separated by blanks or punctuation.
func (o Object) Words(name string) []string {
	list, isList := o.value(name).([]any)
	if !isList {
		return strings.FieldsFunc(o.Text(name), func(r rune) bool { return strings.ContainsRune(" \t,;|", r) })
	}
	var all []string
	for _, v := range list {
		s, ok := textOf(v)
		if !ok {
			o.note(name)
		}
		if s != "" {
			all = append(all, s)
		}
	}
	return all
}

// Link returns the path of a linked resource, or "". Of a list it is the first.
func (o Object) Link(name string) string {
	if all := o.Links(name); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Links returns the paths of linked resources, each once. A single link is a list of one.
func (o Object) Links(name string) []string {
	list, isList := o.value(name).([]any)
	if !isList {
		list = []any{o.value(name)}
	}
	var all []string
	for _, v := range list {
		at, ok := pathOf(v)
		if !ok {
			o.note(name)
		}
		same := func(s string) bool { return strings.TrimRight(s, "/") == strings.TrimRight(at, "/") }
		if at != "" && !slices.ContainsFunc(all, same) {
			all = append(all, at)
		}
	}
	return all
}

// Self returns the path of the object itself, or "".
func (o Object) Self() string {
	at, _ := pathOf(o.props)
	return at
}

// pathOf returns the path that a link has. ok is false if the value is no link.
func pathOf(v any) (at string, ok bool) {
	switch v := v.(type) {
	case nil:
		return "", true
	case string:
		at = trim(v)
		if at == "" || strings.HasPrefix(at, "/") || strings.Contains(at, "://") {
			return at, true
		}
		return "", false
	case map[string]any:
		o := Object{props: v}
		for _, name := range []string{"@odata.id", "href"} {
			if s, isText := textOf(o.value(name)); isText && s != "" {
				return s, true
			}
		}
		return "", len(v) == 0
	}
	return "", false
}

// In returns an object inside, by the names that lead to it. It is empty if there is none. Of a
// list it is the first.
func (o Object) In(names ...string) Object {
	for _, name := range names {
		next := Object{odd: o.odd, at: o.at + name + "."}
		if all := o.Objects(name); len(all) > 0 {
			next.props = all[0].props
		}
		o = next
	}
	return o
}

// Objects returns a list of objects. A single object is a list of one, and a path in place of an
// object is an object with that link only.
func (o Object) Objects(name string) []Object {
	list, isList := o.value(name).([]any)
	if !isList {
		list = []any{o.value(name)}
	}
	var all []Object
	for i, v := range list {
		inside := Object{odd: o.odd, at: o.at + name + "[" + strconv.Itoa(i) + "]."}
		switch v := v.(type) {
		case nil:
			continue
		case map[string]any:
			inside.props = v
		default:
			at, ok := pathOf(v)
			if !ok || at == "" {
				o.note(name)
				continue
			}
			inside.props = map[string]any{"@odata.id": at}
		}
		all = append(all, inside)
	}
	return all
}

// Next returns the reference to the next page of a collection, or "". It may be relative.
func (o Object) Next() string {
	for _, name := range []string{"Members@odata.nextLink", "@odata.nextLink", "odata.nextLink"} {
		if s, ok := textOf(o.value(name)); ok && s != "" {
			return s
		}
		if at, _ := pathOf(o.value(name)); at != "" {
			return at
		}
	}
	return ""
}

// Alone returns the object with notes of its own, such as a member of a collection that is a
// resource itself.
func (o Object) Alone() Object { return Object{props: o.props, odd: new(notes)} }

// At returns the object at a JSON pointer, such as "/Fans/0". It is empty if there is none.
func (o Object) At(pointer string) Object {
	var v any = o.props
	for step := range strings.SplitSeq(strings.Trim(pointer, "/"), "/") {
		switch inside := v.(type) {
		case map[string]any:
			v = Object{props: inside}.value(step)
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n < 0 || n >= len(inside) {
				return Object{}
			}
			v = inside[n]
		default:
			return Object{}
		}
	}
	props, _ := v.(map[string]any)
	return Object{props: props, odd: new(notes)}
}

// Linked reports whether the object is only a link to a resource, possibly with its name. Its other
// properties must be read there.
func (o Object) Linked() bool {
	for name := range o.props {
		switch strings.ToLower(name) {
		case "id", "name", "href", "memberid", "description":
			continue
		}
		if !strings.HasPrefix(name, "@") {
			return false
		}
	}
	return o.Self() != ""
}

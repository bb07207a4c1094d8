package edge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/fsm"
)

// DeniedURL returns a violation if a text is a URL which a peer must not fetch.
func (p *Peer) DeniedURL(field, text string) []fsm.FieldViolation {
	if p.DenyURL == nil || !strings.Contains(text, "://") {
		return nil
	}
	if err := p.DenyURL(text); err != nil {
		return []fsm.FieldViolation{{Field: field, Description: err.Error()}}
	}
	return nil
}

// DeniedURLs returns a violation for each text of a message that is a URL which a peer must not
// fetch. The policy is that of this peer; it is checked again on the resolved address at each use.
func (p *Peer) DeniedURLs(field string, m proto.Message) (bad []fsm.FieldViolation) {
	texts(field, m.ProtoReflect(), func(field, text string) { bad = append(bad, p.DeniedURL(field, text)...) })
	slices.SortStableFunc(bad, func(a, b fsm.FieldViolation) int { return cmp.Compare(a.Field, b.Field) })
	return bad
}

// texts calls f for each text of a message, with its field from the top: plan.steps[0].media.url.
func texts(at string, m protoreflect.Message, f func(field, text string)) {
	one := func(at string, fd protoreflect.FieldDescriptor, v protoreflect.Value) {
		switch {
		case fd.Message() != nil:
			texts(at, v.Message(), f)
		case fd.Kind() == protoreflect.StringKind:
			f(at, v.String())
		}
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) {
			continue
		}
		name := strings.TrimPrefix(at+"."+string(fd.Name()), ".")
		switch v := m.Get(fd); {
		case fd.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				one(name+"."+k.String(), fd.MapValue(), v)
				return true
			})
		case fd.IsList():
			for j := range v.List().Len() {
				one(fmt.Sprintf("%s[%d]", name, j), fd, v.List().Get(j))
			}
		default:
			one(name, fd, v)
		}
	}
}

package wire

import (
	"fmt"
	"reflect"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Partial returns a decoder that reads only some fields of an encoded message into m. The paths
// name them, such as "status.conditions.type"; a path that ends at a message reads all of it. It
// panics on a path that m does not have.
//
// The bytes must decode: see Shape. The decoder returns m each time, so the result is valid until
// the next call, and its strings alias the bytes: a caller that keeps one must clone it.
func Partial(m proto.Message, paths ...string) func(row string) proto.Message {
	p := newPartial(m, paths)
	return func(row string) proto.Message {
		p.reset()
		p.read(row)
		return m
	}
}

// partial decodes some fields of a message.
type partial struct {
	fields []*partialField // by field number; nil for a field that is skipped
	resets []func()
}

// partialField stores one field. It gets the text of a length-delimited value, or the number of a
// varint.
type partialField struct {
	wire  protowire.Type
	store func(text string, number uint64)
}

func newPartial(m proto.Message, paths []string) *partial {
	below := map[protoreflect.Name][]string{} // the paths below each field
	for _, path := range paths {
		name, rest, deeper := strings.Cut(path, ".")
		all := below[protoreflect.Name(name)]
		if deeper {
			all = append(all, rest)
		}
		below[protoreflect.Name(name)] = all
	}
	p, md := &partial{}, m.ProtoReflect().Descriptor()
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if rest, ok := below[fd.Name()]; ok || len(paths) == 0 {
			p.add(fd, structField(m, fd), rest)
		}
		delete(below, fd.Name())
	}
	if len(below) > 0 {
		panic(fmt.Sprintf("message %s has no fields %v", md.FullName(), below))
	}
	return p
}

// structField returns the field of the generated struct that holds a field of the message.
func structField(m proto.Message, fd protoreflect.FieldDescriptor) reflect.Value {
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		if strings.Contains(v.Type().Field(i).Tag.Get("protobuf"), ",name="+string(fd.Name())+",") {
			return v.Field(i)
		}
	}
	panic(fmt.Sprintf("%T has no struct field for %s", m, fd.Name()))
}

// put adds a field.
func (p *partial) put(fd protoreflect.FieldDescriptor, reset func(), store func(text string, number uint64)) {
	for len(p.fields) <= int(fd.Number()) {
		p.fields = append(p.fields, nil)
	}
	p.fields[fd.Number()] = &partialField{wireOf(fd.Kind()), store}
	p.resets = append(p.resets, reset)
}

// add adds a field that is stored in v, with the given paths below it.
func (p *partial) add(fd protoreflect.FieldDescriptor, v reflect.Value, paths []string) {
	switch to := v.Addr().Interface().(type) {
	case *string:
		p.put(fd, func() { *to = "" }, func(text string, _ uint64) { *to = text })
	case *[]string:
		p.put(fd, func() { *to = (*to)[:0] }, func(text string, _ uint64) { *to = append(*to, text) })
	case *map[string]string:
		p.addMap(fd, to)
	case *bool:
		p.put(fd, func() { *to = false }, func(_ string, number uint64) { *to = protowire.DecodeBool(number) })
	case *uint64:
		p.put(fd, func() { *to = 0 }, func(_ string, number uint64) { *to = number })
	default:
		switch kind := fd.Kind(); {
		case kind == protoreflect.MessageKind && fd.IsList():
			p.addList(fd, v, paths)
		case kind == protoreflect.MessageKind && !fd.IsMap():
			p.addMessage(fd, v, paths)
		case v.CanInt() &&
			(kind == protoreflect.Int32Kind || kind == protoreflect.Int64Kind || kind == protoreflect.EnumKind):
			p.put(fd, v.SetZero, func(_ string, number uint64) { v.SetInt(int64(number)) })
		default:
			panic(fmt.Sprintf("decode %s: its type %s is not supported", fd.FullName(), v.Type()))
		}
	}
}

func (p *partial) addMap(fd protoreflect.FieldDescriptor, to *map[string]string) {
	var key, value string
	entry := &partial{}
	entry.put(fd.MapKey(), func() { key = "" }, func(text string, _ uint64) { key = text })
	entry.put(fd.MapValue(), func() { value = "" }, func(text string, _ uint64) { value = text })
	*to = map[string]string{}
	p.put(fd, func() { clear(*to) }, func(text string, _ uint64) {
		entry.reset()
		entry.read(text)
		(*to)[key] = value
	})
}

func (p *partial) addMessage(fd protoreflect.FieldDescriptor, v reflect.Value, paths []string) {
	m := reflect.New(v.Type().Elem())
	sub := newPartial(m.Interface().(proto.Message), paths)
	p.put(fd, v.SetZero, func(text string, _ uint64) {
		if v.IsNil() { // else a second part, which is merged
			sub.reset()
			v.Set(m)
		}
		sub.read(text)
	})
}

// addList adds a list of messages. The messages are used again for each row.
func (p *partial) addList(fd protoreflect.FieldDescriptor, v reflect.Value, paths []string) {
	var subs []*partial // of the messages in v up to its capacity
	p.put(fd, func() { v.SetLen(0) }, func(text string, _ uint64) {
		n := v.Len()
		if n < len(subs) {
			v.SetLen(n + 1)
		} else {
			m := reflect.New(v.Type().Elem().Elem())
			subs = append(subs, newPartial(m.Interface().(proto.Message), paths))
			v.Set(reflect.Append(v, m))
		}
		subs[n].reset()
		subs[n].read(text)
	})
}

func (p *partial) reset() {
	for _, reset := range p.resets {
		reset()
	}
}

// read stores the fields of an encoded message. A field of another wire type is skipped, as
// proto.Unmarshal does.
func (p *partial) read(raw string) {
	for raw != "" {
		tag, n := uvarint(raw)
		raw = raw[n:]
		var text string
		var number uint64
		wire := protowire.Type(tag & 7)
		switch wire {
		case protowire.VarintType:
			number, n = uvarint(raw)
		case protowire.BytesType:
			size, head := uvarint(raw)
			n = head + int(size)
			text = raw[head:n]
		default:
			n = protowire.ConsumeFieldValue(protowire.Number(tag>>3), wire, []byte(raw))
		}
		raw = raw[n:]
		if field := tag >> 3; field < uint64(len(p.fields)) {
			if f := p.fields[field]; f != nil && f.wire == wire {
				f.store(text, number)
			}
		}
	}
}

// uvarint returns a varint and its length.
func uvarint(text string) (v uint64, n int) {
	for i := range len(text) {
		v |= uint64(text[i]&0x7f) << (7 * i)
		if text[i] < 0x80 {
			return v, i + 1
		}
	}
	return v, len(text)
}

package cli_test

import (
	"cmp"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// shapeServer answers every method with a message that has all fields.
type shapeServer struct {
	addr string
	// choice selects the field of each oneof; choices is the largest number of fields so far.
	choice, choices atomic.Int64
	text            string // of all fields that are texts or bytes; empty: x

	mu    sync.Mutex
	enums map[string]shape // the names of values by that of the enum
}

// noteEnum records the names of an enum, which JSON has instead of numbers.
func (s *shapeServer) noteEnum(d protoreflect.EnumDescriptor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := shape{}
	for i := range d.Values().Len() {
		names[string(d.Values().Get(i).Name())] = "enum"
	}
	s.enums["enum "+strings.TrimPrefix(string(d.FullName()), "holdfast.v1.")] = names
}

func startShapeServer(t *testing.T) *shapeServer {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &shapeServer{addr: lis.Addr().String(), enums: map[string]shape{}}
	server := grpc.NewServer(grpc.UnknownServiceHandler(s.answer))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(lis)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return s
}

// answer sends one message. A stream of several ends with an error that clients do not retry.
func (s *shapeServer) answer(_ any, stream grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(stream)
	if !strings.HasPrefix(name, "/holdfast.") { // such as a service of health that a test links
		return status.Errorf(codes.Unimplemented, "%s is not of the product", name)
	}
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(
		protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(name, "/"), "/", ".")))
	if err != nil {
		return status.Errorf(codes.Unimplemented, "find %s: %v", name, err)
	}
	method, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return status.Errorf(codes.Unimplemented, "%s is no method", name)
	}
	in, err := newMessage(method.Input())
	if err != nil {
		return err
	}
	if err := stream.RecvMsg(in); err != nil {
		return err
	}
	out, err := newMessage(method.Output())
	if err != nil {
		return err
	}
	s.fill(out.ProtoReflect(), 0)
	if err := stream.SendMsg(out); err != nil || !method.IsStreamingServer() {
		return err
	}
	return status.Error(codes.InvalidArgument, "one message is enough")
}

func newMessage(d protoreflect.MessageDescriptor) (proto.Message, error) {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		return nil, err
	}
	return kind.New().Interface(), nil
}

// mostNested is the depth of messages at which a message that contains itself ends.
const mostNested = 8

// fill sets all fields, and one of each oneof. Lists and maps get one element.
func (s *shapeServer) fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.Name() == "next_page_token" || depth > mostNested {
			continue
		}
		if of := fd.ContainingOneof(); of != nil && !of.IsSynthetic() {
			n := int64(of.Fields().Len())
			s.choices.Store(max(s.choices.Load(), n))
			if of.Fields().Get(int(s.choice.Load()%n)) != fd {
				continue
			}
		}
		if fd.Enum() != nil {
			s.noteEnum(fd.Enum())
		}
		switch {
		case fd.IsMap():
			value := m.NewField(fd).Map()
			one := value.NewValue()
			if fd.MapValue().Message() != nil {
				s.fill(one.Message(), depth+1)
			} else {
				one = s.example(fd.MapValue())
			}
			value.Set(protoreflect.ValueOfString("*").MapKey(), one)
			m.Set(fd, protoreflect.ValueOfMap(value))
		case fd.IsList() && fd.Message() != nil:
			list := m.NewField(fd).List()
			one := list.NewElement()
			s.fill(one.Message(), depth+1)
			list.Append(one)
			m.Set(fd, protoreflect.ValueOfList(list))
		case fd.IsList():
			list := m.NewField(fd).List()
			list.Append(s.example(fd))
			m.Set(fd, protoreflect.ValueOfList(list))
		case fd.Message() != nil:
			s.fill(m.Mutable(fd).Message(), depth+1)
		default:
			m.Set(fd, s.example(fd))
		}
	}
}

// example returns a value of a field that is no message. An enum has its last value: that of a
// phase is an end.
func (s *shapeServer) example(fd protoreflect.FieldDescriptor) protoreflect.Value {
	text := cmp.Or(s.text, "x")
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(text))
	case protoreflect.EnumKind:
		values := fd.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(values.Len() - 1).Number())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(1)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(1)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(1)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(1)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(1)
	default:
		return protoreflect.ValueOfFloat64(1)
	}
}

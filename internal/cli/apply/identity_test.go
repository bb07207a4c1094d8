package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/internal/cli/difference"
	"github.com/holdfast-metal/holdfast/internal/cli/manifest"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestGetThenApply checks that the output of get -o yaml, applied again, changes nothing: for all
// kinds of documents, with any values in their fields, and all kinds of steps.
func TestGetThenApply(t *testing.T) {
	t.Run("pool", func(t *testing.T) {
		identity(t, poolApplier(), func() *holdfastv1.Pool { return &holdfastv1.Pool{} },
			func(p *holdfastv1.Pool) {
				p.PoolId = "x"
				if !p.GetDeclared() && p.GetStatus() == holdfastv1.Pool_STATUS_UNSPECIFIED {
					p.Status = holdfastv1.Pool_HEALTHY // a pool that is not declared has a manager
				}
			})
	})
	t.Run("image", func(t *testing.T) {
		identity(t, imageApplier(), func() *holdfastv1.Image { return &holdfastv1.Image{} },
			func(i *holdfastv1.Image) { i.Name = "x" })
	})
	t.Run("plan", func(t *testing.T) {
		identity(t, planApplier(), func() *holdfastv1.Plan { return &holdfastv1.Plan{} },
			func(p *holdfastv1.Plan) { p.PlanId = "x" })
	})
	t.Run("machine", func(t *testing.T) {
		identity(t, machineApplier(), func() *holdfastv1.Machine { return &holdfastv1.Machine{} },
			func(m *holdfastv1.Machine) {
				m.MachineId = "x"
				if m.GetSpec() != nil {
					m.Spec.MacAddresses = []string{"aa:bb:cc:dd:ee:ff"} // as the server stores them
				}
			})
	})
}

func identity[M proto.Message](t *testing.T, k applier[M], empty func() M, named func(M)) {
	rapid.Check(t, func(t *rapid.T) {
		live := empty()
		draw(t, live.ProtoReflect(), 0)
		named(live)
		raw, err := manifest.JSON(secrets.Redact(live))
		if err != nil {
			t.Fatal(err)
		}
		text, err := manifest.YAML(raw)
		if err != nil {
			t.Fatal(err)
		}
		docs, err := manifest.Decode([]manifest.Source{{File: "x.yaml", Data: text}}, "xs", empty)
		if err != nil || len(docs) != 1 {
			t.Fatalf("got %d documents, %v, of:\n%s", len(docs), err, text)
		}
		want := docs[0]
		switch any(want).(type) {
		case *holdfastv1.Pool, *holdfastv1.Machine: // the others are replaced by the document
			target := &target[M]{doc: docs[0], live: live, found: true}
			if want, err = k.plan(t.Context(), nil, target); err != nil {
				t.Fatal(err)
			}
		}
		changes := difference.Between(k.declared(live).ProtoReflect(), k.declared(want).ProtoReflect())
		if diff := cmp.Diff(0, len(changes)); diff != "" {
			t.Fatalf("got changes %v, want none, of:\n%s", changes, text)
		}
	})
}

// draw sets some fields of a message, and at most one of each oneof.
func draw(t *rapid.T, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if depth > 4 || rapid.IntRange(0, 2).Draw(t, "field") == 0 {
			continue
		}
		switch {
		case fd.IsMap():
			if fd.MapKey().Kind() != protoreflect.StringKind || fd.MapValue().Message() != nil {
				continue
			}
			for range rapid.IntRange(1, 2).Draw(t, "entries") {
				m.Mutable(fd).Map().Set(protoreflect.ValueOfString(rapid.String().Draw(t, "key")).MapKey(),
					drawValue(t, fd.MapValue()))
			}
		case fd.IsList() && fd.Message() != nil:
			for range rapid.IntRange(1, 3).Draw(t, "elements") {
				draw(t, m.Mutable(fd).List().AppendMutable().Message(), depth+1)
			}
		case fd.IsList():
			m.Mutable(fd).List().Append(drawValue(t, fd))
		case fd.Message() != nil && fd.Message().ParentFile().Package() == "google.protobuf":
		case fd.Message() != nil:
			draw(t, m.Mutable(fd).Message(), depth+1)
		default:
			m.Set(fd, drawValue(t, fd))
		}
	}
}

func drawValue(t *rapid.T, fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.String().Draw(t, "text"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool"))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, "int32"))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, "int64"))
	case protoreflect.EnumKind:
		n := rapid.IntRange(0, fd.Enum().Values().Len()-1).Draw(t, "enum")
		return protoreflect.ValueOfEnum(fd.Enum().Values().Get(n).Number())
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("x"))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(1)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(1)
	}
	return protoreflect.ValueOfFloat64(1)
}

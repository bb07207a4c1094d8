package fsm_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestRepeatedFieldsHaveLimits fails if a repeated field of a command has no limit, or if a limit
// belongs to no field.
func TestRepeatedFieldsHaveLimits(t *testing.T) {
	found := map[protoreflect.FullName]bool{}
	for _, f := range fsmtest.RepeatedFields((&internalv1.Command{}).ProtoReflect().Descriptor()) {
		name := f.Last().FullName()
		found[name] = true
		if most, ok := limits.Most(name); !ok || most <= 0 {
			t.Errorf("%s has no limit: declare one in fsm/internal/limits, and let its proposers keep it", name)
		}
		if f.Last().IsMap() && f.Last().MapValue().Message() != nil {
			t.Errorf("%s is a map of messages, whose fields are not checked", name)
		}
	}
	for _, name := range limits.Declared() {
		if !found[name] {
			t.Errorf("%s has a limit and is no repeated field of a command", name)
		}
	}
}

// TestLimitsAreEnforced checks that each command is refused with one element too many in a
// repeated field, by Apply and at the edge alike, with the field, the number and the limit.
func TestLimitsAreEnforced(t *testing.T) {
	p := fsmtest.NewPeer()
	for i := range fsmtest.Operations().Len() {
		op := fsmtest.Operations().Get(i)
		for _, f := range fsmtest.RepeatedFields(op.Message()) {
			most, _ := limits.Most(f.Last().FullName())
			c := (&internalv1.Command{}).ProtoReflect()
			m := c.Mutable(op).Message()
			for _, fd := range f[:len(f)-1] {
				if fd.IsList() {
					m = m.Mutable(fd).List().AppendMutable().Message()
				} else {
					m = m.Mutable(fd).Message()
				}
			}
			for n := range most + 1 {
				fsmtest.AddElement(m, f.Last(), n)
			}
			cmd := c.Interface().(*internalv1.Command)
			want := fmt.Sprintf("%s: has %d elements, at most %d are allowed", plainPath(f), most+1, most)
			for what, err := range map[string]*fsm.Error{"edge": p.CheckLimits(cmd), "Apply": p.Propose(cmd)[0].Err} {
				if err == nil || err.Code != fsm.InvalidArgument || err.Message != want {
					t.Errorf("%s, %s: got %v, want %s", op.Name(), what, err, want)
				}
			}
		}
	}
}

// plainPath returns the path of a field in the first element of each list.
func plainPath(f fsmtest.RepeatedField) string {
	s := ""
	for i, fd := range f {
		s += fd.TextName()
		if i < len(f)-1 {
			if fd.IsList() {
				s += "[0]"
			}
			s += "."
		}
	}
	return s
}

// TestLargestCommandsAreAccepted checks that the largest commands are legal: the work of a refused
// one would say nothing. test/work bounds their work.
func TestLargestCommandsAreAccepted(t *testing.T) {
	f := fsmtest.NewFilled()
	for _, c := range f.Commands {
		if err := f.Try(c).Err; err != nil && !c.Refused() {
			t.Errorf("%s with %d elements is refused: %v", c.Name, c.Elems, err)
		}
	}
}

// BenchmarkLargestCommands reports the time of the largest commands. Apply holds the lock of the
// state: the goal is 20 ms.
func BenchmarkLargestCommands(b *testing.B) {
	f := fsmtest.NewFilled()
	for _, c := range f.Commands {
		b.Run(c.Name, func(b *testing.B) {
			for b.Loop() {
				f.Try(c)
			}
		})
	}
}

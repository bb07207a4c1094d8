package schema

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	"github.com/holdfast-metal/holdfast/fsm/internal/wire"
	"github.com/holdfast-metal/holdfast/fsm/internal/wire/wiretest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// seen is the data that a bulk loader reads from a row.
type seen struct {
	Key    string
	Index  []seenKey
	Facets map[[2]string]int
}

// seenKey is a key in one of the indexes.
type seenKey struct {
	Index int
	Key   string
}

func seenOf[P proto.Message](s *table.Schema[P], m P) seen {
	v := seen{Key: s.Key(m), Facets: map[[2]string]int{}}
	if s.Index != nil {
		s.Index(m, func(index int, key string) { v.Index = append(v.Index, seenKey{index, key}) })
	}
	if s.Facets != nil {
		s.Facets(m, func(prefix, name, value string) { v.Facets[[2]string{prefix + name, value}]++ })
	}
	return v
}

// FuzzFields checks that each schema lists the fields that it uses, and that partial decoding
// returns the values of the full message, whatever it decoded before.
func FuzzFields(f *testing.F) {
	seeds := wiretest.Seeds(f, &holdfastv1.Machine{}, &holdfastv1.HistoryEntry{}, &holdfastv1.AuditEvent{},
		&holdfastv1.Event{}, &holdfastv1.RunEvent{}, &holdfastv1.ServiceEvent{}, &internalv1.Lease{})
	for _, state := range holdfastv1.Node_State_value {
		raw, err := proto.Marshal(&holdfastv1.Machine{MachineId: "m",
			Status: &holdfastv1.MachineStatus{NodeState: holdfastv1.Node_State(state), AgentState: holdfastv1.Agent_READY,
				Conditions: []*holdfastv1.Condition{{Type: lifecycle.Degraded, Status: true}, {Type: "Reachable"},
					{Type: lifecycle.InCluster}}}, Spec: &holdfastv1.MachineSpec{Pool: "p"},
			Node: &holdfastv1.NodeRecord{StateChangedAt: &timestamppb.Timestamp{Seconds: 1e9, Nanos: 5}}})
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, raw)
	}
	for i, raw := range seeds {
		f.Add(raw, seeds[(i+1)%len(seeds)])
	}
	for _, raw := range wiretest.OddFields() {
		sameSeenByAll(f, seeds[0], raw)
	}
	f.Fuzz(func(t *testing.T, before, raw []byte) {
		sameSeenByAll(t, before, raw)
	})
}

// sameSeenByAll checks rows of all tables that are decoded in part.
func sameSeenByAll(t testing.TB, rows ...[]byte) {
	t.Helper()
	sameSeen(t, Machines(), rows...)
	sameSeen(t, History(), rows...)
	sameSeen(t, Audit(), rows...)
	sameSeen(t, Events(), rows...)
	sameSeen(t, RunEvents(), rows...)
	sameSeen(t, ServiceEvents(), rows...)
	sameSeen(t, Leases(), rows...)
}

func sameSeen[P proto.Message](t testing.TB, s *table.Schema[P], rows ...[]byte) {
	t.Helper()
	var none P
	partial := wire.Partial(none.ProtoReflect().Type().New().Interface(), s.Fields...)
	for _, raw := range rows {
		m := none.ProtoReflect().Type().New().Interface().(P)
		if proto.Unmarshal(raw, m) != nil {
			continue
		}
		if diff := cmp.Diff(seenOf(s, m), seenOf(s, partial(string(raw)).(P))); diff != "" {
			t.Errorf("%s, %x (-full +partial):\n%s", m.ProtoReflect().Descriptor().Name(), raw, diff)
		}
	}
}

// TestPartialMakesNoGarbage checks that partial decoding allocates only texts.
func TestPartialMakesNoGarbage(t *testing.T) {
	raw, err := proto.Marshal(wiretest.Full((&holdfastv1.Machine{}).ProtoReflect(), 3))
	if err != nil {
		t.Fatal(err)
	}
	row, partial := string(raw), wire.Partial(&holdfastv1.Machine{}, Machines().Fields...)
	s := wire.ShapeOf((&holdfastv1.Machine{}).ProtoReflect().Descriptor())
	if got := testing.AllocsPerRun(100, func() { s.Fits(raw); partial(row) }); got > 0 {
		t.Errorf("got %v allocations a row, want none", got)
	}
}

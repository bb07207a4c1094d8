package fields

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func sample() []*holdfastv1.Machine {
	at := func(s int64) *timestamppb.Timestamp { return timestamppb.New(time.Unix(s, 0)) }
	return []*holdfastv1.Machine{
		{MachineId: "m-10", Revision: 3, CreatedAt: at(30), Labels: map[string]string{"a.b/c": "2"},
			Spec:   &holdfastv1.MachineSpec{Rack: "r2"},
			Status: &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_RETIRED}},
		{MachineId: "m-2", Revision: 20, CreatedAt: at(10), Labels: map[string]string{"a.b/c": "10"},
			Spec:   &holdfastv1.MachineSpec{Rack: "r10"},
			Status: &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_READY}},
		{MachineId: "m-1"},
	}
}

func TestOrder(t *testing.T) {
	for path, want := range map[string]string{
		"machine_id":   "m-1 m-2 m-10",
		"machineId":    "m-1 m-2 m-10",
		".machine_id":  "m-1 m-2 m-10",
		"spec.rack":    "m-10 m-2 m-1",
		"rack":         "m-10 m-2 m-1",
		"revision":     "m-1 m-10 m-2",
		"created_at":   "m-2 m-10 m-1",
		"labels.a.b/c": "m-10 m-2 m-1",
		"status.phase": "m-2 m-10 m-1",
	} {
		p, err := Parse((&holdfastv1.Machine{}).ProtoReflect().Descriptor(), path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		order, err := p.Order()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all := sample()
		slices.SortStableFunc(all, func(a, b *holdfastv1.Machine) int { return order(a.ProtoReflect(), b.ProtoReflect()) })
		var got []string
		for _, m := range all {
			got = append(got, m.GetMachineId())
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", path, diff)
		}
	}
}

func TestErrors(t *testing.T) {
	for path, want := range map[string]string{
		"spec.rak":           `MachineSpec has no field "rak": did you mean rack?`,
		"nothing":            `Machine has no field "nothing": it has agent,`,
		"machine_id.x":       `"machine_id" has no fields`,
		"labels":             `"labels" is a map: name a key: labels.KEY`,
		"spec":               `"spec" is not a single value`,
		"spec.mac_addresses": `"mac_addresses" is not a single value`,
		"hostname":           `"hostname" could be any of `,
	} {
		p, err := Parse((&holdfastv1.Machine{}).ProtoReflect().Descriptor(), path)
		if err == nil {
			_, err = p.Order()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q in it", path, err, want)
		}
	}
}

// TestNaturalIsAnOrder checks the properties that sort requires of Natural.
func TestNaturalIsAnOrder(t *testing.T) {
	text := rapid.StringMatching(`[ab0-2-]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := text.Draw(t, "a"), text.Draw(t, "b"), text.Draw(t, "c")
		if Natural(a, b) != -Natural(b, a) || (Natural(a, b) == 0) != (a == b) {
			t.Fatalf("Natural(%q, %q): got %d, exchanged %d", a, b, Natural(a, b), Natural(b, a))
		}
		if Natural(a, b) <= 0 && Natural(b, c) <= 0 && Natural(a, c) > 0 {
			t.Fatalf("%q ≤ %q ≤ %q, but not the first ≤ the last", a, b, c)
		}
	})
}

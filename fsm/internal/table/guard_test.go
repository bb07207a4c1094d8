package table_test

import (
	"testing"

	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestGuard checks that a guarded table panics at the next use of a row whose message was
// changed, and only then.
func TestGuard(t *testing.T) {
	for name, use := range map[string]func(tab machines){
		"replaced": func(tab machines) { tab.Put(&holdfastv1.Machine{MachineId: "m-1"}) },
		"deleted":  func(tab machines) { tab.Delete("m-1") },
		"copied":   func(tab machines) { tab.Copy() },
		"searched": func(tab machines) {
			for range tab.Find(table.Query{Texts: []string{"m-1"}}, "") {
				return
			}
		},
	} {
		for _, changed := range []bool{false, true} {
			tab := table.New(schema.Machines())
			tab.Guard()
			m := &holdfastv1.Machine{MachineId: "m-1", Labels: map[string]string{"a": "b", "c": "d"}}
			tab.Put(m)
			if changed {
				m.Labels["a"] = "x"
			}
			if panicked := panics(func() { use(tab) }); panicked != changed {
				t.Errorf("%s: got a panic: %v, want %v", name, panicked, changed)
			}
		}
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

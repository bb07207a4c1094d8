package fleet

import (
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ProviderOf returns the provider named by a machine, and whether the machine exists, without
// decoding it.
func (v *View) ProviderOf(machineID string) (provider string, ok bool) {
	r, ok := v.s.Machines.Row(machineID)
	if !ok {
		return "", false
	}
	if provider, ok = r.Facet("spec.provider"); !ok {
		provider, _ = r.Facet(schema.LabelPath + "provider")
	}
	return provider, true
}

// Machine returns a machine with its effective state.
func (v *View) Machine(id string) (*holdfastv1.Machine, bool) { return v.found(v.s.Machines.Get(id)) }

func (v *View) whole(m *holdfastv1.Machine) *holdfastv1.Machine { return Whole(v.s, m) }

// found returns the whole machine of a lookup.
func (v *View) found(m *holdfastv1.Machine, ok bool) (*holdfastv1.Machine, bool) {
	if !ok {
		return nil, false
	}
	return v.whole(m), true
}

// MachineMark returns a value that changes whenever the record of the machine changes. It
// reflects neither the lease nor the passage of time. It is nil if there is no such machine.
func (v *View) MachineMark(id string) any {
	if r, ok := v.s.Machines.Row(id); ok {
		return r
	}
	return nil
}

// MachinesMark returns a value that changes whenever the record of any machine changes.
func (v *View) MachinesMark() any { return v.s.Machines.Mark() }

// MachineRoll returns a value that changes whenever a machine is created or deleted.
func (v *View) MachineRoll() any { return v.s.Machines.Roll() }

// MachineCount returns the number of machines.
func (v *View) MachineCount() int { return v.s.Machines.Len() }

// MachineIDs returns the ids of all machines, in order. It decodes no machine, which would be
// slow for a large fleet.
func (v *View) MachineIDs() iter.Seq[string] { return v.s.Machines.Keys() }

// Machines returns the machines with an id above after, by id.
func (v *View) Machines(after string) iter.Seq[*holdfastv1.Machine] {
	return table.Map(v.s.Machines.Ascend("", after), v.whole)
}

// FindMachines returns the machines with an id above after that q selects, by id.
func (v *View) FindMachines(q table.Query, after string) iter.Seq[*holdfastv1.Machine] {
	return table.Map(v.s.Machines.Find(q, after), v.whole)
}

// Node returns the machine with an id, which may be a machine id or a MAC address.
func Node(s *core.State, id string) (*holdfastv1.Machine, bool) {
	if m, ok := s.Machines.Get(id); ok {
		return m, true
	}
	mac, ok := lex.MAC(id)
	if !ok {
		return nil, false
	}
	return ByMAC(s, mac)
}

// EditNode returns a copy of the machine that Node returns.
func EditNode(t *core.Tx, id string) (*holdfastv1.Machine, bool) {
	m, ok := Node(t.State, id)
	if !ok {
		return nil, false
	}
	return t.Machines.Edit(m.GetMachineId())
}

// ByMAC returns the machine with a MAC address in canonical form.
func ByMAC(s *core.State, mac string) (*holdfastv1.Machine, bool) {
	return s.Machines.Lookup(schema.MachinesByOwned, "MAC address "+mac)
}

// MachineByMAC returns the machine with a MAC address, in any notation.
func (v *View) MachineByMAC(mac string) (*holdfastv1.Machine, bool) {
	mac, ok := lex.MAC(mac)
	if !ok {
		return nil, false
	}
	return v.found(ByMAC(v.s, mac))
}

// NodeByID returns the machine with a machine id or a MAC address.
func (v *View) NodeByID(id string) (*holdfastv1.Machine, bool) { return v.found(Node(v.s, id)) }

// Stalled returns the machines whose node has been installing, deprovisioning or migrating
// since before a time. The longest comes first, each with its key for the next page. If after
// is empty, it starts at the first.
func (v *View) Stalled(since time.Time, after string) iter.Seq2[string, *holdfastv1.Machine] {
	end := schema.OrderedTime(timestamppb.New(since), "")
	return func(yield func(string, *holdfastv1.Machine) bool) {
		for key, m := range v.s.Machines.Scan(schema.MachinesPassing, "", after) {
			if key >= end || !yield(key, Whole(v.s, m)) {
				return
			}
		}
	}
}

// PoolMachines returns the machines of a pool with an id above after, by id.
func (v *View) PoolMachines(pool, after string) iter.Seq[*holdfastv1.Machine] {
	if after != "" {
		after = schema.PoolKey(pool) + after
	}
	return table.Map(table.Values(v.s.Machines.Scan(schema.MachinesByPool, schema.PoolKey(pool), after)), v.whole)
}

// InPool reports whether a machine is in a pool. It does not decode the machine.
func (v *View) InPool(id, pool string) bool {
	return v.s.Machines.Indexed(schema.MachinesByPool, schema.PoolKey(pool)+id, id)
}

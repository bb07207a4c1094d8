package schema

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/wire"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Partial decoding reads the fields of a row that its key, indexes and facets use, and no
// others. The bulk loader of snapshots needs no more. If it decoded rows in full, a restore
// would take 1.3 to 1.5 times as long, and the check of a file 2 to 3 times
// (BenchmarkSnapshot). The caller has checked that the row
// decodes (see wire.Shape). A decoded message is valid until the next one, and its strings alias
// the row, so a caller that keeps one must clone it. The numbers are those of the .proto
// files. If a key, index or facet uses another field, decode it here too; FuzzGlance fails
// otherwise.

func partialTime(t *timestamppb.Timestamp, text string) {
	for f := range wire.FieldsOf(text) {
		switch {
		case f.IsVarint(1):
			t.Seconds = int64(f.Value)
		case f.IsVarint(2):
			t.Nanos = int32(f.Value)
		}
	}
}

// machineDecoder holds the messages that a partial decoder of machines reuses.
type machineDecoder struct {
	machine *holdfastv1.Machine
	changed *timestamppb.Timestamp
}

// partialMachine returns a partial decoder of machines.
func partialMachine() func(row string) *holdfastv1.Machine {
	g := &machineDecoder{changed: &timestamppb.Timestamp{}, machine: &holdfastv1.Machine{
		Labels: map[string]string{}, Spec: &holdfastv1.MachineSpec{}, Status: &holdfastv1.MachineStatus{},
		Node: &holdfastv1.NodeRecord{}, Agent: &holdfastv1.AgentRecord{},
	}}
	return g.read
}

func (g *machineDecoder) read(row string) *holdfastv1.Machine {
	m := g.machine
	macs, conditions := m.Spec.MacAddresses[:0], m.Status.Conditions[:0]
	clear(m.Labels)
	m.Spec.Reset()
	m.Status.Reset()
	g.changed.Reset()
	m.MachineId, m.Node.StateChangedAt, m.Agent.TokenId = "", nil, ""
	m.Spec.MacAddresses, m.Status.Conditions = macs, conditions
	for f := range wire.FieldsOf(row) {
		switch {
		case f.IsText(1):
			m.MachineId = f.Text
		case f.IsText(2):
			key, value := mapEntry(f.Text)
			m.Labels[key] = value
		case f.IsText(3):
			partialSpec(m.Spec, f.Text)
		case f.IsText(4):
			partialStatus(m.Status, f.Text)
		case f.IsText(53):
			g.node(f.Text)
		case f.IsText(54):
			partialAgent(m.Agent, f.Text)
		}
	}
	return m
}

// mapEntry decodes an entry of a map of strings.
func mapEntry(text string) (key, value string) {
	for f := range wire.FieldsOf(text) {
		switch {
		case f.IsText(1):
			key = f.Text
		case f.IsText(2):
			value = f.Text
		}
	}
	return key, value
}

func partialSpec(s *holdfastv1.MachineSpec, text string) {
	for f := range wire.FieldsOf(text) {
		if f.Wire != protowire.BytesType {
			continue
		}
		switch f.Number {
		case 2:
			s.BmcEndpoint = f.Text
		case 3:
			s.TargetClusterRef = f.Text
		case 4:
			s.MacAddresses = append(s.MacAddresses, f.Text)
		case 50:
			s.Provider = f.Text
		case 51:
			s.Location = f.Text
		case 52:
			s.Rack = f.Text
		case 53:
			s.Serial = f.Text
		case 54:
			s.CustomerId = f.Text
		case 55:
			s.Pool = f.Text
		case 56:
			s.BmcCredentialsRef = f.Text
		case 57:
			s.SshCredentialsRef = f.Text
		}
	}
}

func partialStatus(s *holdfastv1.MachineStatus, text string) {
	for f := range wire.FieldsOf(text) {
		switch {
		case f.IsVarint(1):
			s.Phase = holdfastv1.MachineStatus_Phase(f.Value)
		case f.IsText(2):
			s.Conditions = partialCondition(s.Conditions, f.Text)
		case f.IsVarint(52):
			s.NodeState = holdfastv1.Node_State(f.Value)
		case f.IsVarint(53):
			s.AgentState = holdfastv1.Agent_State(f.Value)
		}
	}
}

// partialCondition appends a condition, and reuses a message that the slice has allocated
// before.
func partialCondition(all []*holdfastv1.Condition, text string) []*holdfastv1.Condition {
	if n := len(all); n < cap(all) && all[:n+1][n] != nil {
		all = all[:n+1]
		all[n].Reset()
	} else {
		all = append(all, &holdfastv1.Condition{})
	}
	c := all[len(all)-1]
	for f := range wire.FieldsOf(text) {
		switch {
		case f.IsText(1):
			c.Type = f.Text
		case f.IsVarint(2):
			c.Status = protowire.DecodeBool(f.Value)
		}
	}
	return all
}

func partialAgent(a *holdfastv1.AgentRecord, text string) {
	for f := range wire.FieldsOf(text) {
		if f.IsText(50) {
			a.TokenId = f.Text
		}
	}
}

func (g *machineDecoder) node(text string) {
	for f := range wire.FieldsOf(text) {
		if !f.IsText(14) {
			continue
		}
		g.machine.Node.StateChangedAt = g.changed
		partialTime(g.changed, f.Text)
	}
}

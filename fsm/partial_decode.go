package fsm

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Partial decoding reads the fields of a row that its key, indexes and facets use, and no
// others. The bulk loader of snapshots needs no more. The caller has checked that the row
// decodes (see shape). A decoded message is valid until the next one, and its strings alias
// the row, so a caller that keeps one must clone it. The numbers are those of the .proto
// files. If a key, index or facet uses another field, decode it here too; FuzzGlance fails
// otherwise.

// wireField is one field of an encoded message.
type wireField struct {
	number protowire.Number
	wire   protowire.Type
	text   string // of a length-delimited field: a string or a message
	value  uint64 // of a varint
}

// isText and isVarint report whether the field has this number and type. A field of another
// type is treated as unknown.
func (f *wireField) isText(number protowire.Number) bool {
	return f.number == number && f.wire == protowire.BytesType
}

func (f *wireField) isVarint(number protowire.Number) bool {
	return f.number == number && f.wire == protowire.VarintType
}

// fieldsOf returns the fields of an encoded message, in the order of the bytes.
func fieldsOf(text string) func(yield func(wireField) bool) {
	return func(yield func(wireField) bool) {
		for text != "" {
			tag, n := uvarint(text)
			text = text[n:]
			f := wireField{number: protowire.Number(tag >> 3), wire: protowire.Type(tag & 7)}
			switch f.wire {
			case protowire.VarintType:
				f.value, n = uvarint(text)
			case protowire.BytesType:
				var size uint64
				size, n = uvarint(text)
				f.text = text[n : n+int(size)]
				n += int(size)
			default:
				n = protowire.ConsumeFieldValue(f.number, f.wire, []byte(text))
			}
			text = text[n:]
			if !yield(f) {
				return
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

// partialNumber returns a decoder for rows of which only one number is used. It stores the
// number in *at, a field of m.
func partialNumber[P proto.Message](m P, number protowire.Number, at *uint64) func(row string) P {
	return func(row string) P {
		*at = 0
		for f := range fieldsOf(row) {
			if f.isVarint(number) {
				*at = f.value
			}
		}
		return m
	}
}

// partialLease returns a partial decoder of leases.
func partialLease() func(row string) *internalv1.Lease {
	l, expired := &internalv1.Lease{Ref: &internalv1.LeaseRef{}}, &timestamppb.Timestamp{}
	return func(row string) *internalv1.Lease {
		l.Ref.Reset()
		expired.Reset()
		l.ExpiredAt, l.Revision, l.Gone = nil, 0, false
		for f := range fieldsOf(row) {
			switch {
			case f.isText(1):
				partialLeaseRef(l.Ref, f.text)
			case f.isText(5):
				l.ExpiredAt = expired
				partialTime(expired, f.text)
			case f.isVarint(7):
				l.Revision = f.value
			case f.isVarint(11):
				l.Gone = protowire.DecodeBool(f.value)
			}
		}
		return l
	}
}

func partialLeaseRef(r *internalv1.LeaseRef, text string) {
	for f := range fieldsOf(text) {
		switch {
		case f.isVarint(1):
			r.Kind = internalv1.LeaseRef_Kind(f.value)
		case f.isText(2):
			r.Id = f.text
		}
	}
}

func partialTime(t *timestamppb.Timestamp, text string) {
	for f := range fieldsOf(text) {
		switch {
		case f.isVarint(1):
			t.Seconds = int64(f.value)
		case f.isVarint(2):
			t.Nanos = int32(f.value)
		}
	}
}

// partialHistory returns a partial decoder of history entries.
func partialHistory() func(row string) *holdfastv1.HistoryEntry {
	e := &holdfastv1.HistoryEntry{}
	return func(row string) *holdfastv1.HistoryEntry {
		e.MachineId, e.Sequence = "", 0
		for f := range fieldsOf(row) {
			switch {
			case f.isText(1):
				e.MachineId = f.text
			case f.isVarint(2):
				e.Sequence = f.value
			}
		}
		return e
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
	for f := range fieldsOf(row) {
		switch {
		case f.isText(1):
			m.MachineId = f.text
		case f.isText(2):
			key, value := mapEntry(f.text)
			m.Labels[key] = value
		case f.isText(3):
			partialSpec(m.Spec, f.text)
		case f.isText(4):
			partialStatus(m.Status, f.text)
		case f.isText(53):
			g.node(f.text)
		case f.isText(54):
			partialAgent(m.Agent, f.text)
		}
	}
	return m
}

// mapEntry decodes an entry of a map of strings.
func mapEntry(text string) (key, value string) {
	for f := range fieldsOf(text) {
		switch {
		case f.isText(1):
			key = f.text
		case f.isText(2):
			value = f.text
		}
	}
	return key, value
}

func partialSpec(s *holdfastv1.MachineSpec, text string) {
	for f := range fieldsOf(text) {
		if f.wire != protowire.BytesType {
			continue
		}
		switch f.number {
		case 2:
			s.BmcEndpoint = f.text
		case 3:
			s.TargetClusterRef = f.text
		case 4:
			s.MacAddresses = append(s.MacAddresses, f.text)
		case 50:
			s.Provider = f.text
		case 51:
			s.Location = f.text
		case 52:
			s.Rack = f.text
		case 53:
			s.Serial = f.text
		case 54:
			s.CustomerId = f.text
		case 55:
			s.Pool = f.text
		case 56:
			s.BmcCredentialsRef = f.text
		case 57:
			s.SshCredentialsRef = f.text
		}
	}
}

func partialStatus(s *holdfastv1.MachineStatus, text string) {
	for f := range fieldsOf(text) {
		switch {
		case f.isVarint(1):
			s.Phase = holdfastv1.MachineStatus_Phase(f.value)
		case f.isText(2):
			s.Conditions = partialCondition(s.Conditions, f.text)
		case f.isVarint(52):
			s.NodeState = holdfastv1.Node_State(f.value)
		case f.isVarint(53):
			s.AgentState = holdfastv1.Agent_State(f.value)
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
	for f := range fieldsOf(text) {
		switch {
		case f.isText(1):
			c.Type = f.text
		case f.isVarint(2):
			c.Status = protowire.DecodeBool(f.value)
		}
	}
	return all
}

func partialAgent(a *holdfastv1.AgentRecord, text string) {
	for f := range fieldsOf(text) {
		if f.isText(50) {
			a.TokenId = f.text
		}
	}
}

func (g *machineDecoder) node(text string) {
	for f := range fieldsOf(text) {
		if !f.isText(14) {
			continue
		}
		g.machine.Node.StateChangedAt = g.changed
		partialTime(g.changed, f.text)
	}
}

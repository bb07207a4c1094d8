package fsmtest

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// maxCommand is the largest size of a command in bytes, that of a log entry.
const maxCommand = 512 << 10

// Largest is a command with one of its repeated fields at the limit.
type Largest struct {
	Name  string // the operation and the path of the field
	op    proto.Message
	Elems int // of the field
}

// RepeatedField is a repeated field or a map of a command, with the fields that lead to it.
type RepeatedField []protoreflect.FieldDescriptor

// Last returns the repeated field itself.
func (f RepeatedField) Last() protoreflect.FieldDescriptor { return f[len(f)-1] }

func (f RepeatedField) String() string {
	s := ""
	for i, fd := range f {
		if i > 0 {
			s += "."
		}
		s += fd.TextName()
	}
	return s
}

// RepeatedFields returns all repeated fields and maps in a message type.
func RepeatedFields(md protoreflect.MessageDescriptor) []RepeatedField {
	var all []RepeatedField
	var walk func(protoreflect.MessageDescriptor, RepeatedField)
	walk = func(md protoreflect.MessageDescriptor, path RepeatedField) {
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			at := append(slices.Clip(path), fd)
			if fd.IsList() || fd.IsMap() {
				all = append(all, at)
			}
			if fd.Message() != nil && !fd.IsMap() {
				walk(fd.Message(), at)
			}
		}
	}
	walk(md, nil)
	return all
}

// Operations returns the fields of a command that are its kinds.
func Operations() protoreflect.FieldDescriptors {
	return (&internalv1.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
}

// Filled has a state with as many records as commands may name, and the largest commands for it.
type Filled struct {
	Peer     *Peer
	Commands []Largest
}

// NewFilled returns a filled state.
func NewFilled() *Filled {
	p := filled()
	return &Filled{Peer: p, Commands: largestCommands(p)}
}

// Try returns the result of a command, which changes nothing.
func (f *Filled) Try(c Largest) fsm.Result { return f.Peer.Try(c.command(f.Peer)) }

func (c Largest) command(p *Peer) *internalv1.Command {
	cmd := Command(proto.Clone(c.op))
	cmd.FeatureLevel, cmd.Epoch, cmd.Principal = fsm.FeatureLevel, p.Term, "tester"
	cmd.Time = p.View().Meta().GetNow()
	return cmd
}

// largestCommands returns a command of each kind, and each with one of its repeated fields at its
// limit, or with as many elements as fit into a log entry.
func largestCommands(p *Peer) []Largest {
	var all []Largest
	bases := workBases(p)
	for i := range Operations().Len() {
		op := Operations().Get(i)
		base, ok := bases[string(op.Name())]
		if !ok {
			continue
		}
		all = append(all, Largest{Name: string(op.Name()), op: base})
		for _, f := range RepeatedFields(op.Message()) {
			all = append(all, extended(base, string(op.Name()), f))
		}
	}
	return append(all, largeReports(), largeLog(), manyConditions(500, 2), manyConditions(15, 64))
}

// extended returns a command with as many elements in a field as it may have.
func extended(base proto.Message, op string, f RepeatedField) Largest {
	most, _ := limits.Most(f.Last().FullName())
	c := Largest{Name: op + "." + f.String(), op: proto.Clone(base)}
	m := c.op.ProtoReflect()
	parents := []protoreflect.Message{m}
	for _, fd := range f[:len(f)-1] {
		switch {
		case fd.IsList() && m.Get(fd).List().Len() == 0:
			m = m.Mutable(fd).List().AppendMutable().Message()
			number(m, 0)
		case fd.IsList():
			m = m.Mutable(fd).List().Get(0).Message()
		default:
			m = m.Mutable(fd).Message()
		}
		parents = append(parents, m)
	}
	c.Elems = fillField(c.op, m, f.Last(), most)
	for i := len(f) - 2; i >= 0; i-- { // the lists around it: each element has as many
		if f[i].IsList() {
			most, _ := limits.Most(f[i].FullName())
			fillField(c.op, parents[i], f[i], most)
		}
	}
	return c
}

// fillField adds elements to a field of a part of a command, as many as fit, and returns their
// number.
func fillField(op proto.Message, m protoreflect.Message, fd protoreflect.FieldDescriptor, most int) int {
	length := func() int {
		if fd.IsMap() {
			return m.Get(fd).Map().Len()
		}
		return m.Get(fd).List().Len()
	}
	size := proto.Size(op)
	for before := length(); before < most; before = length() {
		if !fd.IsMap() && fd.Message() != nil && before > 0 {
			if size += proto.Size(m.Get(fd).List().Get(before-1).Message().Interface()) + 16; size > maxCommand {
				break
			}
		}
		AddElement(m, fd, before)
	}
	return length()
}

// largeReports returns heartbeats of as many pools as one command may have.
func largeReports() Largest {
	c := &internalv1.CheckpointLeases{ClockMs: 1}
	for i := range fsm.MaxPoolReports {
		c.Leases = append(c.Leases, &internalv1.SeenLease{SeenMs: 1, Renewal: &internalv1.Renewal{
			Lease: &internalv1.LeaseRef{Kind: internalv1.LeaseRef_POOL, Id: workPool(i)},
			Pool:  &internalv1.PoolReport{Gpus: []*holdfastv1.Gpu{{Id: 1, TotalVramGb: proto.Float64(80)}}}}})
	}
	return Largest{Name: "checkpoint_leases of pools", op: c, Elems: len(c.GetLeases())}
}

// manyConditions returns observations of some machines.
func manyConditions(machines, conditions int) Largest {
	c := &internalv1.ObserveConditions{}
	for i := range machines {
		m := &internalv1.MachineConditions{MachineId: workMachine(i)}
		for n := range conditions {
			m.Conditions = append(m.Conditions, &holdfastv1.Condition{Type: fmt.Sprint("c", n), Status: true})
		}
		c.Machines = append(c.Machines, m)
	}
	return Largest{Name: fmt.Sprintf("observe_conditions of %d machines", machines), op: c, Elems: machines * conditions}
}

// largeLog returns an append of the log of an installer with many short lines.
func largeLog() Largest {
	return Largest{Name: "append_install_log of lines", Elems: 256 << 10, op: &internalv1.AppendInstallLog{
		Sha256: TokenValue("one"), Data: []byte(strings.Repeat("\n", 256<<10))}}
}

// AddElement adds the nth element to a repeated field or map. Elements differ.
func AddElement(m protoreflect.Message, fd protoreflect.FieldDescriptor, n int) {
	if fd.IsMap() {
		key := protoreflect.ValueOfString(element(fd, n)).MapKey()
		m.Mutable(fd).Map().Set(key, protoreflect.ValueOfString("v"))
		return
	}
	list := m.Mutable(fd).List()
	if fd.Message() == nil {
		list.Append(protoreflect.ValueOfString(element(fd, n)))
		return
	}
	e := list.NewElement()
	if list.Len() > 0 { // the first one is valid
		proto.Merge(e.Message().Interface(), list.Get(0).Message().Interface())
	}
	number(e.Message(), n)
	list.Append(e)
}

// element returns a text for the nth element of a repeated field, which the filled state accepts.
func element(fd protoreflect.FieldDescriptor, n int) string {
	switch fd.FullName().Name() {
	case "machine_ids":
		return workMachine(n)
	case "token_ids":
		return workToken(n)
	case "pool_ids", "pools":
		return workPool(n)
	case "mac_addresses":
		return workMAC(1<<22 + n)
	case "ssh_host_keys", "host_keys":
		return fmt.Sprintf("ssh-ed25519 AAAA%d", n)
	case "paths":
		if fd.ContainingMessage().Name() == "UpdateNode" {
			return "tags"
		}
		return "labels"
	case "params":
		return fmt.Sprint("p", n)
	}
	return fmt.Sprint("label-", n)
}

// number makes the nth element of a list differ from the others in its ids.
func number(m protoreflect.Message, n int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.IsList() || fd.IsMap() {
			continue
		}
		set := func(v string) {
			if fd.Kind() == protoreflect.StringKind {
				m.Set(fd, protoreflect.ValueOfString(v))
			}
		}
		switch fd.Name() {
		case "machine_id":
			set(workMachine(n))
		case "run_id":
			set(workRun(n))
		case "peer_id", "name", "type", "key_id":
			set(fmt.Sprint("p", n))
		case "id":
			switch {
			case fd.Kind() == protoreflect.Int32Kind:
				m.Set(fd, protoreflect.ValueOfInt32(int32(n)))
			case m.Descriptor().Name() == "LeaseRef":
				set(workMachine(n))
			}
		case "renewal", "lease", "ref", "secret":
			if m.Has(fd) {
				number(m.Mutable(fd).Message(), n)
			}
		}
	}
	if m.Descriptor().Name() == "Secret" {
		m.Set(fields.ByName("name"), protoreflect.ValueOfString(fmt.Sprint("secret-", n)))
	}
}

// Refused reports whether a largest command is refused anyway, because its field must be empty in a
// legal one, or because it has too many elements in all.
func (c Largest) Refused() bool {
	return slices.Contains([]string{"create_agent_machine.token.token.pools", "register_agent.token.token.pools",
		"observe_conditions.machines.conditions"}, c.Name)
}

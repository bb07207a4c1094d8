package nodetest

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Peer applies entries to a real FSM as Raft would, with one second between two entries.
type Peer struct {
	*fsm.FSM
	Index uint64    // of the last entry
	Now   time.Time // the proposer's clock
}

// NewPeer returns a peer whose leader is established and has stored the built-in plans.
func NewPeer() *Peer {
	p := &Peer{FSM: fsm.New(), Now: time.Date(2026, 1, 29, 15, 10, 0, 0, time.UTC)}
	p.Do(&internalv1.LeaderEstablished{PeerId: "p1", Term: 1})
	for _, plan := range fsm.DefaultPlans() {
		p.Do(&internalv1.CreatePlan{Plan: plan, BuiltIn: true})
	}
	return p
}

// Do applies one operation as one entry.
func (p *Peer) Do(op proto.Message) fsm.Result { return p.Propose(Command(op))[0] }

// Propose applies commands as one entry. It sets the fields that they leave empty.
func (p *Peer) Propose(cmds ...*internalv1.Command) []fsm.Result {
	p.Now = p.Now.Add(time.Second)
	for _, c := range cmds {
		if c.GetTime() == nil {
			c.Time = timestamppb.New(p.Now)
		}
		if c.GetPrincipal() == "" {
			c.Principal = "tester"
		}
		c.Epoch = 1
	}
	data, err := proto.Marshal(&internalv1.Entry{Commands: cmds})
	if err != nil {
		panic(fmt.Sprintf("encode entry: %v", err))
	}
	p.Index++
	return p.Apply(p.Index, 1, data)
}

// Command returns a command with an operation.
func Command(op proto.Message) *internalv1.Command {
	c := &internalv1.Command{}
	fields := c.ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); fd.Message().FullName() == op.ProtoReflect().Descriptor().FullName() {
			c.ProtoReflect().Set(fd, protoreflect.ValueOfMessage(op.ProtoReflect()))
			return c
		}
	}
	panic(fmt.Sprintf("%T is no operation of a command", op))
}

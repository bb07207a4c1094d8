package fsmtest

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// start is the clock of a new Peer, in Unix seconds.
const start = 1_769_699_400

// Peer feeds one FSM as Raft would. Entries are one second apart.
type Peer struct {
	*fsm.FSM
	Index uint64    // of the last entry
	Term  uint64    // of the next entries, and the epoch of their executor commands
	Now   time.Time // the proposer's clock
}

// NewPeer returns a Peer with an established leader of term 1, which has stored the built-in
// plans.
func NewPeer() *Peer {
	p := &Peer{FSM: fsm.New(), Now: time.Unix(start, 0).UTC()}
	p.Lead(1)
	for _, plan := range fsm.DefaultPlans() {
		p.Do(&internalv1.CreatePlan{Plan: plan, BuiltIn: true})
	}
	return p
}

// Lead establishes a new leader.
func (p *Peer) Lead(term uint64) fsm.Result {
	p.Term = term
	return p.Do(&internalv1.LeaderEstablished{PeerId: fmt.Sprintf("p%d", term%3), Term: term})
}

// Do applies one operation, given as its message, in an entry of its own.
func (p *Peer) Do(op proto.Message) fsm.Result {
	return p.Propose(Command(op))[0]
}

// Propose applies commands in one entry. It sets the time, feature level, principal and epoch
// where they are missing.
func (p *Peer) Propose(cmds ...*internalv1.Command) []fsm.Result {
	p.Now = p.Now.Add(time.Second)
	for _, c := range cmds {
		if c.GetTime() == nil {
			c.Time = timestamppb.New(p.Now)
		}
		if c.GetFeatureLevel() == 0 {
			c.FeatureLevel = fsm.FeatureLevel
		}
		if c.GetPrincipal() == "" {
			c.Principal = "tester"
		}
		if c.GetEpoch() == 0 {
			c.Epoch = p.Term
		}
	}
	p.Index++
	return p.Apply(p.Index, p.Term, Encode(cmds...))
}

// Command wraps an operation's message in a command.
func Command(op proto.Message) *internalv1.Command {
	c := (&internalv1.Command{}).ProtoReflect()
	fields := c.Descriptor().Oneofs().ByName("op").Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); fd.Message().FullName() == op.ProtoReflect().Descriptor().FullName() {
			c.Set(fd, protoreflect.ValueOfMessage(op.ProtoReflect()))
			return c.Interface().(*internalv1.Command)
		}
	}
	panic(fmt.Sprintf("%s is no operation of a command", op.ProtoReflect().Descriptor().FullName()))
}

// Encode returns the payload of a log entry.
func Encode(cmds ...*internalv1.Command) []byte {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&internalv1.Entry{Commands: cmds})
	if err != nil {
		panic(fmt.Sprintf("encode entry: %v", err)) // only for a string that is not UTF-8
	}
	return data
}

package fsm

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/runlog"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// tx applies one command. A command checks first and writes last, so one that is refused has
// changed nothing.
type tx struct {
	*state
	codec    *runlog.Codec
	decoded  *planCache
	commands *commandSet
	index    uint64
	cmd      *internalv1.Command
	now      *timestamppb.Timestamp // never decreases, even if a proposer's clock does
}

func newTx(f *FSM, index uint64, c *internalv1.Command) *tx {
	s := f.state
	s.tick(c)
	return &tx{state: s, codec: f.own, decoded: f.decoded, commands: f.commands, index: index, cmd: c,
		now: proto.CloneOf(s.meta.GetNow())}
}

// perform applies the command. If the command has an origin, its caller's rights are checked
// first, and the result is recorded in an audit event.
func (t *tx) perform() (proto.Message, *Error) {
	c, ok := t.commands.of(t.cmd)
	if !ok {
		panic("command was understood but is not declared") // a test looks up every operation
	}
	if t.cmd.GetOrigin() == nil {
		return t.run(c)
	}
	about := c.subject(t, t.cmd)
	value, err := proto.Message(nil), t.checkOrigin(about)
	if err == nil {
		value, err = t.run(c)
	}
	t.addAudit(about, value, err)
	return value, err
}

// run applies the rule of a command. A fenced command of a former leader is refused.
func (t *tx) run(c command) (proto.Message, *Error) {
	if e, now := t.cmd.GetEpoch(), t.meta.GetEpoch(); c.needsEpoch && e != now {
		return nil, refuse(Aborted, ReasonStaleEpoch, "command of leader epoch %d refused: the epoch is %d", e, now)
	}
	return c.apply(t, t.cmd)
}

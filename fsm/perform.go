package fsm

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/trail"
)

// perform applies the command of a transaction. If the command has an origin, its caller's
// rights are checked first, and the result is recorded in an audit event.
func (f *FSM) perform(t *core.Tx) (proto.Message, *Error) {
	c, ok := f.commands.of(t.Command)
	if !ok {
		panic("command was understood but is not declared") // a test looks up every operation
	}
	if t.Command.GetOrigin() == nil {
		return c.run(t)
	}
	about := c.subject(t, t.Command)
	value, err := proto.Message(nil), checkOrigin(t, about)
	if err == nil {
		value, err = c.run(t)
	}
	trail.AddAudit(t, about.resource, value, err)
	return value, err
}

// run applies the rule of a command. A fenced command of a former leader is refused.
func (c command) run(t *core.Tx) (proto.Message, *Error) {
	if e, now := t.Command.GetEpoch(), t.Meta.GetEpoch(); c.needsEpoch && e != now {
		return nil, refuse(Aborted, ReasonStaleEpoch, "command of leader epoch %d refused: the epoch is %d", e, now)
	}
	return c.apply(t, t.Command)
}

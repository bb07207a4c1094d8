package fsm

import (
	"google.golang.org/protobuf/proto"
)

// perform applies the command of a transaction. If the command has an origin, its caller's
// rights are checked first, and the result is recorded in an audit event.
func (f *FSM) perform(t *tx) (proto.Message, *Error) {
	c, ok := f.commands.of(t.cmd)
	if !ok {
		panic("command was understood but is not declared") // a test looks up every operation
	}
	if t.cmd.GetOrigin() == nil {
		return c.run(t)
	}
	about := c.subject(t, t.cmd)
	value, err := proto.Message(nil), t.checkOrigin(about)
	if err == nil {
		value, err = c.run(t)
	}
	t.addAudit(about.resource, value, err)
	return value, err
}

// run applies the rule of a command. A fenced command of a former leader is refused.
func (c command) run(t *tx) (proto.Message, *Error) {
	if e, now := t.cmd.GetEpoch(), t.meta.GetEpoch(); c.needsEpoch && e != now {
		return nil, refuse(Aborted, ReasonStaleEpoch, "command of leader epoch %d refused: the epoch is %d", e, now)
	}
	return c.apply(t, t.cmd)
}

package fsm

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/fsm/internal/backup"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/replay"
	"github.com/holdfast-metal/holdfast/fsm/internal/trail"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// command declares one command of the Raft log.
type command struct {
	message    protoreflect.FullName // of the operation
	apply      func(*core.Tx, *internalv1.Command) (proto.Message, *Error)
	subject    func(*core.Tx, *internalv1.Command) subject // read before the command changes anything
	needsEpoch bool                                        // only the present leader's tasks may propose it
	level      uint32                                      // the feature level that introduced it
}

// changes declares a command whose result is only success or an error.
func changes[C proto.Message](
	get func(*internalv1.Command) C, apply func(*core.Tx, C) *Error, about func(*core.Tx, C) subject,
) command {
	return declare(get, func(t *core.Tx, c C) (proto.Message, *Error) { return nil, apply(t, c) }, about)
}

// answers declares a command whose result has a value.
func answers[C, R proto.Message](
	get func(*internalv1.Command) C, apply func(*core.Tx, C) (R, *Error), about func(*core.Tx, C) subject,
) command {
	return declare(get, func(t *core.Tx, c C) (proto.Message, *Error) {
		value, err := apply(t, c)
		if err != nil {
			return nil, err // without a value, not even a typed nil
		}
		return value, nil
	}, about)
}

func declare[C proto.Message](
	get func(*internalv1.Command) C, apply func(*core.Tx, C) (proto.Message, *Error), about func(*core.Tx, C) subject,
) command {
	var message C
	return command{
		message: message.ProtoReflect().Descriptor().FullName(),
		apply:   func(t *core.Tx, c *internalv1.Command) (proto.Message, *Error) { return apply(t, get(c)) },
		subject: func(t *core.Tx, c *internalv1.Command) subject { return about(t, get(c)) },
		level:   core.Level1,
	}
}

// fenced returns the declaration of a command that is refused unless it carries the present epoch.
func (c command) fenced() command {
	c.needsEpoch = true
	return c
}

// since returns the declaration of a command that a feature level introduced.
func (c command) since(level uint32) command {
	c.level = level
	return c
}

// commandSet finds the declaration of a command.
type commandSet struct {
	op        protoreflect.OneofDescriptor
	byMessage map[protoreflect.FullName]command
}

func newCommandSet(stage *backup.Cache) *commandSet {
	s := &commandSet{
		op:        (*internalv1.Command)(nil).ProtoReflect().Descriptor().Oneofs().ByName("op"),
		byMessage: map[protoreflect.FullName]command{},
	}
	for _, c := range commandList(stage) {
		s.byMessage[c.message] = c
	}
	return s
}

// of returns the declaration of a command. Its operation is known: see understood.
func (s *commandSet) of(c *internalv1.Command) (command, bool) {
	field := c.ProtoReflect().WhichOneof(s.op)
	if field == nil {
		return command{}, false
	}
	found, ok := s.byMessage[field.Message().FullName()]
	return found, ok
}

// CheckLimits refuses a command with too many elements in a repeated field, as Apply would. A
// command that is refused before it is in the log costs other peers nothing.
func (f *FSM) CheckLimits(c *internalv1.Command) *Error { return f.commands.withinLimits(c) }

func (s *commandSet) withinLimits(c *internalv1.Command) *Error {
	m := c.ProtoReflect()
	field := m.WhichOneof(s.op)
	if field == nil {
		return nil
	}
	bad := limits.Violations("", m.Get(field).Message().Interface())
	if o := c.GetOrigin(); o != nil {
		bad = append(bad, limits.Violations("origin.", o)...)
	}
	return refusal.Invalid(bad)
}

// LevelOf returns the feature level that introduced a command, or 0 if it is unknown. A command
// that uses a field of a later level needs that level.
func (f *FSM) LevelOf(c *internalv1.Command) uint32 {
	found, _ := f.commands.of(c)
	return found.level
}

// perform applies the command of a transaction. If the command has an origin, its caller's
// rights are checked first, and the result is recorded in an audit event. The second delivery of a
// command has the outcome of the first, and no audit event, because it is the same call.
func (f *FSM) perform(t *core.Tx) (proto.Message, *Error) {
	if err := f.commands.withinLimits(t.Command); err != nil {
		return nil, err // no rule may read it
	}
	c, ok := f.commands.of(t.Command)
	if !ok {
		panic("command was understood but is not declared") // a test looks up every operation
	}
	if value, done, err := replay.Of(t); done {
		return value, err
	}
	value, err := f.performOnce(t, c)
	if err == nil {
		replay.Remember(t, value)
	}
	return value, err
}

func (f *FSM) performOnce(t *core.Tx, c command) (proto.Message, *Error) {
	if t.Command.GetOrigin() == nil {
		return c.run(t)
	}
	about := c.subject(t, t.Command)
	value, err := proto.Message(nil), checkOrigin(t, about)
	if err == nil {
		value, err = c.run(t)
	}
	trail.AddAudit(t, about.resource, value, err)
	return value, err.Answer()
}

// run applies the rule of a command. A fenced command of a former leader is refused.
func (c command) run(t *core.Tx) (proto.Message, *Error) {
	if e, now := t.Command.GetEpoch(), t.Meta.GetEpoch(); c.needsEpoch && e != now {
		return nil, refuse(Aborted, ReasonStaleEpoch, "command of leader epoch %d refused: the epoch is %d", e, now)
	}
	return c.apply(t, t.Command)
}

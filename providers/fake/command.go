package fake

import (
	"cmp"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// command is a command on a host. Its output and times are fixed at its start.
type command struct {
	program
	started time.Time
	stopped time.Time // zero unless it was stopped
	why     string
}

func (c *call) startCommand(a commandArgs) (any, error) {
	if a.Token == "" {
		return nil, fmt.Errorf("token of the command is empty")
	}
	if c.commands[a.Token] != nil {
		return nil, nil
	}
	if a.Command.Path == "" && a.Command.Script == "" {
		return nil, fmt.Errorf("command has neither a path nor a script")
	}
	h := host{
		name:   c.id,
		user:   cmp.Or(a.Command.User, "root"),
		bootID: c.bootID,
		image:  c.image,
		time:   time.Duration(c.fleet.config.CommandTime),
	}
	cmd := &command{started: c.now, program: compile(a.Command, h)}
	if c.commands == nil {
		c.commands = make(map[string]*command)
	}
	c.commands[a.Token] = cmd
	c.effect(c.op, opStartCommand, false, a.Token)
	if t := a.Command.Timeout; t > 0 && t < cmd.length {
		at := c.now.Add(t)
		c.later(at, false, func(at time.Time) { cmd.stop(at, "timeout of "+t.String()) })
	}
	if cmd.power != "" {
		// Counted when requested, as a press is.
		c.effect(c.op, cmd.power, true, "in band")
		life := c.life
		c.later(c.now.Add(cmd.powerAt), false, func(at time.Time) {
			if c.life == life && cmd.stopped.IsZero() {
				c.inBand(at, cmd.power)
			}
		})
	}
	return nil, nil
}

// inBand reboots or powers off from within the operating system.
func (m *machine) inBand(at time.Time, what string) {
	if what == effectReboot {
		m.down(at, "Rebooting")
		m.start(at)
		return
	}
	m.target = false
	m.turnOff(at)
}

// stop stops a command that is still running.
func (c *command) stop(at time.Time, why string) {
	if c.stopped.IsZero() && c.started.Add(c.length).After(at) {
		c.stopped, c.why = at, why
	}
}

func (c *call) commandStatus(a outputArgs) (any, error) {
	cmd := c.commands[a.Token]
	if cmd == nil {
		return providers.CommandStatus{State: providers.WorkNone}, nil
	}
	if a.Offset < 0 {
		return nil, fmt.Errorf("offset %d is negative", a.Offset)
	}
	ran, s := c.now.Sub(cmd.started), providers.CommandStatus{State: providers.WorkRunning}
	switch {
	case !cmd.stopped.IsZero():
		ran, s.State, s.ExitCode = cmd.stopped.Sub(cmd.started), providers.WorkFailed, -1
	case ran >= cmd.length:
		s.State, s.ExitCode = providers.WorkDone, cmd.exit
	}
	s.Output, s.Next = cmd.read(ran, a.Offset)
	return s, nil
}

// read returns the output of a program after it ran for the given time, from an offset on.
func (p *program) read(ran time.Duration, offset int64) (out []providers.Output, next int64) {
	next = offset
	at := int64(0)
	for _, o := range p.output {
		if o.at > ran {
			break
		}
		end := at + int64(len(o.data))
		if end > offset {
			out = append(out, providers.Output{Stream: o.stream, Data: o.data[max(offset-at, 0):]})
			next = end
		}
		at = end
	}
	return out, next
}

func (c *call) killCommand(a tokenArgs) (any, error) {
	cmd := c.commands[a.Token]
	if cmd == nil || !cmd.stopped.IsZero() || !cmd.started.Add(cmd.length).After(c.now) {
		return nil, nil
	}
	cmd.stop(c.now, "killed")
	c.effect(c.op, opKillCommand, false, a.Token)
	return nil, nil
}

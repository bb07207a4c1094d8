package providertest

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

func commandTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"UnknownTokenIsNone": func(h *harness) {
			p := need[providers.RemoteExecutor](h)
			token := h.op("ssh").Token()
			if s := h.status(p, token, 0); s.State != providers.WorkNone {
				h.Fatalf("got %+v, want none", s)
			}
			h.ok("kill what was never started", p.KillCommand(h.ctx, h.op("kill"), h.Machine, token))
		},
		"ArgumentsAreNotTouched": func(h *harness) {
			h.prints(providers.Command{Path: "echo", Args: []string{"a  b", "c'd", `e"f`}}, "a  b c'd e\"f\n")
		},
		"EnvironmentIsPassed": func(h *harness) {
			h.prints(providers.Command{
				Script: "printenv HOLDFAST_PROBE",
				Env:    map[string]string{"HOLDFAST_PROBE": "1 2'3"},
			}, "1 2'3\n")
		},
		"StartTwiceIsOnce": func(h *harness) {
			p := need[providers.RemoteExecutor](h)
			op := h.op("ssh")
			c := providers.Command{Script: "echo once; sleep 0.2; echo done"}
			for range 3 {
				h.ok("start", p.StartCommand(h.ctx, op, h.Machine, op.Token(), c))
			}
			s := h.finished(p, op.Token())
			h.ok("start again after it has ended", p.StartCommand(h.ctx, op, h.Machine, op.Token(), c))
			got := text(h.status(p, op.Token(), 0).Output, "stdout")
			if got != "once\ndone\n" || s.State != providers.WorkDone {
				h.Fatalf("got %q and %+v, want one execution", got, s)
			}
			h.counted(op, "command", 1)
		},
		"OutlivesItsCaller": func(h *harness) {
			p := need[providers.RemoteExecutor](h)
			op := h.op("ssh")
			ctx, cancel := context.WithCancel(h.ctx)
			c := providers.Command{Script: "sleep 0.3; echo alive"}
			h.ok("start", p.StartCommand(ctx, op, h.Machine, op.Token(), c))
			cancel()
			s := h.finished(p, op.Token())
			if s.State != providers.WorkDone || text(s.Output, "stdout") != "alive\n" {
				h.Fatalf("got %+v, want a command that continued", s)
			}
		},
		"KillEndsIt": func(h *harness) {
			p := need[providers.RemoteExecutor](h)
			op := h.op("ssh")
			c := providers.Command{Script: "echo up; sleep 600"}
			h.ok("start", p.StartCommand(h.ctx, op, h.Machine, op.Token(), c))
			h.eventually("first output", func() (bool, error) {
				return text(h.status(p, op.Token(), 0).Output, "stdout") == "up\n", nil
			})
			h.ok("kill", p.KillCommand(h.ctx, op, h.Machine, op.Token()))
			h.ended(h.finished(p, op.Token()))
			h.ok("kill again", p.KillCommand(h.ctx, op, h.Machine, op.Token()))
			h.counted(op, "kill", 1)
			c = providers.Command{Script: "echo up"}
			h.ok("start again", p.StartCommand(h.ctx, op, h.Machine, op.Token(), c))
			h.ended(h.status(p, op.Token(), 0))
			h.counted(op, "command", 1)
		},
		"TimeoutEndsIt": func(h *harness) {
			p := need[providers.RemoteExecutor](h)
			op := h.op("ssh")
			c := providers.Command{Script: "sleep 600", Timeout: h.Wait / 10}
			h.ok("start", p.StartCommand(h.ctx, op, h.Machine, op.Token(), c))
			h.ended(h.finished(p, op.Token()))
		},
	}
}

// prints runs a command and checks its stdout.
func (h *harness) prints(c providers.Command, want string) {
	h.Helper()
	p := need[providers.RemoteExecutor](h)
	op := h.op("ssh")
	h.ok("start", p.StartCommand(h.ctx, op, h.Machine, op.Token(), c))
	s := h.finished(p, op.Token())
	if got := text(s.Output, "stdout"); got != want || s.State != providers.WorkDone || s.ExitCode != 0 {
		h.Fatalf("got %q and %+v, want %q and exit 0", got, s, want)
	}
}

func (h *harness) status(p providers.RemoteExecutor, token string, offset int64) providers.CommandStatus {
	h.Helper()
	s, err := p.CommandStatus(h.ctx, h.Machine, token, offset)
	h.ok("read command status", err)
	return s
}

// finished waits for the end of a command, and returns its status with the whole output.
func (h *harness) finished(p providers.RemoteExecutor, token string) (s providers.CommandStatus) {
	h.Helper()
	h.eventually("end of the command", func() (bool, error) {
		var err error
		s, err = p.CommandStatus(h.ctx, h.Machine, token, 0)
		return s.State == providers.WorkDone || s.State == providers.WorkFailed, err
	})
	return s
}

// ended checks that a command did not end by itself.
func (h *harness) ended(s providers.CommandStatus) {
	h.Helper()
	if s.State != providers.WorkFailed && (s.State != providers.WorkDone || s.ExitCode == 0) {
		h.Fatalf("got %+v, want a command that failed", s)
	}
}

// text returns the output of one stream, or of both in order if stream is "".
func text(out []providers.Output, stream string) string {
	var b strings.Builder
	for _, o := range out {
		if stream == "" || o.Stream == stream {
			b.Write(o.Data)
		}
	}
	return b.String()
}

// elapsed returns how long f ran.
func elapsed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

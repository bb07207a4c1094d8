package fake_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// lab is one fleet in fake time, with a machine in it.
type lab struct {
	*testing.T
	ctx   context.Context
	fleet *fake.Fleet
	p     *fake.Provider
	m     providers.Machine
}

// Times of a lab, long enough to observe intermediate states.
const (
	powerTime   = 2 * time.Second
	bootTime    = 60 * time.Second
	installTime = 10 * time.Minute
	commandTime = time.Second
	joinTime    = 20 * time.Second
)

// inLab runs a test in fake time.
func inLab(t *testing.T, faults fake.Faults, test func(l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := fake.NewFleet(fake.Config{
			PowerTime: fake.Duration(powerTime), BootTime: fake.Duration(bootTime), InstallTime: fake.Duration(installTime),
			CommandTime: fake.Duration(commandTime), JoinTime: fake.Duration(joinTime), Faults: faults,
		})
		test(&lab{T: t, ctx: t.Context(), fleet: f, p: fake.New(f), m: machine("m-1")})
	})
}

func op(step string) providers.Op {
	return providers.Op{RunID: "r-1", Step: step, Attempt: 1, Epoch: 7}
}

func (l *lab) ok(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// fails checks an error's class.
func (l *lab) fails(err error, want providers.Class) {
	l.Helper()
	if err == nil || providers.ClassOf(err) != want {
		l.Fatalf("got error %v, want one of class %s", err, want)
	}
}

func (l *lab) press(a providers.PowerAction) {
	l.Helper()
	l.ok(l.p.SetPower(l.ctx, op("reboot"), l.m, a))
}

func (l *lab) power(want providers.PowerState) {
	l.Helper()
	if got, err := l.p.PowerState(l.ctx, l.m); err != nil || got != want {
		l.Fatalf("power is %q, %v, want %q", got, err, want)
	}
}

func (l *lab) facts() providers.Facts {
	l.Helper()
	f, err := l.p.Inspect(l.ctx, l.m)
	l.ok(err)
	return f
}

// host checks whether the host answers, and the reason.
func (l *lab) host(up bool, reason string) {
	l.Helper()
	if f := l.facts(); f.Reachable != up || f.ReachableReason != reason {
		l.Fatalf("got reachable %v, %s, want %v, %s", f.Reachable, f.ReachableReason, up, reason)
	}
}

func (l *lab) start(token, script string) {
	l.Helper()
	l.ok(l.p.StartCommand(l.ctx, op("ssh"), l.m, token, providers.Command{Script: script}))
}

func (l *lab) command(token string, want providers.WorkState) providers.CommandStatus {
	l.Helper()
	s, err := l.p.CommandStatus(l.ctx, l.m, token, 0)
	if err != nil || s.State != want {
		l.Fatalf("command is %+v, %v, want %s", s, err, want)
	}
	return s
}

func (l *lab) install(step string, want providers.WorkState) providers.InstallStatus {
	l.Helper()
	s, err := l.p.InstallStatus(l.ctx, l.m, op(step).Token())
	if err != nil || s.State != want {
		l.Fatalf("install is %+v, %v, want %s", s, err, want)
	}
	return s
}

// effects returns the names of all effects, in order.
func (l *lab) effects() []string {
	out := []string{}
	for _, e := range l.fleet.Effects("", "", 0) {
		out = append(out, e.Effect)
	}
	return out
}

// pass advances the time of a synctest bubble.
func pass(d time.Duration) {
	time.Sleep(d) // sleep: fake clock
}

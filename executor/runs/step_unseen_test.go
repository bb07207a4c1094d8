package runs

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// unseen is a machine whose BMC reports only the power state, as with IPMI.
type unseen struct {
	*fake.Provider
	why string // the reason
	bmc bool   // the BMC answers
}

func (p *unseen) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	state, err := p.PowerState(ctx, m)
	if state == providers.PowerOff {
		return providers.Facts{ReachableReason: "PoweredOff", BMCReachable: p.bmc, BMCReason: "IPMIOK"}, err
	}
	return providers.Facts{ReachableReason: p.why, ReachableUnknown: true, BMCReachable: p.bmc, BMCReason: "IPMIOK"}, err
}

// A reboot of a machine that cannot be observed ends when its power was off and is on, and reports
// that limit. It does not end if the host is observable but silent, or if the BMC does not answer.
func TestUnobservedReboot(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    unseen
		want holdfastv1.Run_Phase
	}{
		{"IPMI alone", unseen{why: providers.NotProbed, bmc: true}, holdfastv1.Run_SUCCEEDED},
		{"no address", unseen{why: providers.NoSSHEndpoint, bmc: true}, holdfastv1.Run_SUCCEEDED},
		{"no key for the host", unseen{why: "NoSecretsKey", bmc: true}, holdfastv1.Run_FAILED},
		{"silent BMC", unseen{why: providers.NotProbed}, holdfastv1.Run_FAILED},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, fake.Config{PowerTime: fake.Duration(10 * time.Millisecond)})
			tt.p.Provider = fake.New(l.Fleet)
			l.Set = providers.SetOf(map[string]providers.Provider{"fake": &tt.p})
			l.Machine("m-1")
			reboot := stepOf("s", &holdfastv1.Reboot{Mode: "bmc", Force: true})
			if reboot.TimeoutSeconds = 1; tt.want == holdfastv1.Run_SUCCEEDED {
				reboot.TimeoutSeconds = 60
			}
			l.Plan("p", reboot)
			cfg := quick()
			cfg.UnseenBoot = 200 * time.Millisecond
			l.lead(cfg)
			id := l.Start("m-1", "", "p", nil).GetRunId()
			run := l.Ended(id)
			if run.GetPhase() != tt.want {
				t.Fatalf("run: got %s (%v), want %s\n%s", run.GetPhase(), run.GetError(), tt.want, l.Log(id, "system"))
			}
			if run.GetPhase() == holdfastv1.Run_SUCCEEDED {
				if message := run.GetSteps()[0].GetMessage(); !strings.Contains(message,
					"cannot observe whether the host is up ("+tt.p.why+")") {
					t.Errorf("got message %q", message)
				}
				if diff := cmp.Diff(map[string]int{"s/1/power_off": 1}, l.Destructive(id)); diff != "" {
					t.Errorf("destructive effects (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// stuckBoot is a machine of which the BMC reports, once it was off, a boot that does not end.
type stuckBoot struct {
	*fake.Provider
	why string // the reason; empty: the BMC reports a boot for a while and nothing after that

	mu  sync.Mutex
	off bool
}

func (p *stuckBoot) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	state, err := p.PowerState(ctx, m)
	p.mu.Lock()
	defer p.mu.Unlock()
	f := providers.Facts{BMCReachable: true, BMCReason: "RedfishOK", Power: state}
	switch {
	case state == providers.PowerOff:
		p.off, f.ReachableReason = true, "PoweredOff"
	case !p.off:
		f.Reachable, f.ReachableReason, f.BootID = true, "OSRunning", "b-1"
	case p.why == providers.BootNotReported:
		f.ReachableReason, f.ReachableUnknown = p.why, true
	default:
		f.ReachableReason = p.why
	}
	return f, err
}

// PowerState implements providers.PowerController.
func (p *stuckBoot) PowerState(ctx context.Context, m providers.Machine) (providers.PowerState, error) {
	state, err := p.Provider.PowerState(ctx, m)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = p.off || state == providers.PowerOff
	return state, err
}

// A machine that was switched off and on is not switched off another time because its boot is not
// seen: not by the next attempt, and not by the next leader.
func TestUnseenBootIsNotPressedAgain(t *testing.T) {
	for _, tt := range []struct {
		name string
		step proto.Message
		why  string
		kill bool // the leader, once the power is on
		want holdfastv1.Run_Phase
	}{
		{"boot does not end", &holdfastv1.Reboot{Mode: "bmc", Force: true}, "OSBootStarted", false, holdfastv1.Run_FAILED},
		{"leader dies", &holdfastv1.Reboot{Mode: "bmc", Force: true}, "OSBootStarted", true, holdfastv1.Run_FAILED},
		{"BMC reports no end", &holdfastv1.Reboot{Mode: "bmc", Force: true}, providers.BootNotReported, false,
			holdfastv1.Run_SUCCEEDED},
		{"BMC reports no end, leader dies", &holdfastv1.Reboot{Mode: "bmc", Force: true}, providers.BootNotReported, true,
			holdfastv1.Run_SUCCEEDED},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{PowerTime: fake.Duration(time.Second)})
				l.Set = providers.SetOf(map[string]providers.Provider{"fake": &stuckBoot{Provider: fake.New(l.Fleet), why: tt.why}})
				l.Machine("m-1")
				s := stepOf("s", tt.step)
				s.TimeoutSeconds, s.MaxRetries = 40, new(int32(2))
				l.Plan("p", s)
				cfg := Config{}
				cfg.UnseenBoot = 20 * time.Second
				ld := l.lead(cfg)
				id := l.Start("m-1", "", "p", nil).GetRunId()
				if tt.kill {
					l.Wait(id, "power is on", func(*holdfastv1.Run) bool { return len(l.presses(id)) == 2 })
					time.Sleep(5 * time.Second) // sleep: fake clock, into the wait for the boot
					ld.Kill()
					<-ld.Done
					ld = l.lead(cfg)
				}
				run := l.Ended(id)
				ld.Stop()
				if run.GetPhase() != tt.want {
					t.Errorf("run: got %s (%v), want %s\n%s", run.GetPhase(), run.GetError(), tt.want, l.Log(id, "system"))
				}
				if diff := cmp.Diff([]string{"hard-off", "on"}, l.presses(id)); diff != "" {
					t.Errorf("presses (-want +got):\n%s\n%s", diff, l.Log(id, "system"))
				}
				const want = "power was off and is on"
				if got := run.GetSteps()[0].GetMessage(); !strings.Contains(got, want) {
					t.Errorf("message: got %q, want one with %q", got, want)
				}
			})
		})
	}
}

// noAnswerOn is a machine whose BMC stops answering, after it was switched on, until the attempt
// has failed.
type noAnswerOn struct {
	*fake.Provider
	mu    sync.Mutex
	quiet int // readings that are not answered
}

// PowerState implements providers.PowerController.
func (p *noAnswerOn) PowerState(ctx context.Context, m providers.Machine) (providers.PowerState, error) {
	state, err := p.Provider.PowerState(ctx, m)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && state == providers.PowerOn && p.quiet > 0 {
		p.quiet--
		return "", providers.Errorf(providers.Gone, "read the power", "no such system")
	}
	return state, err
}

// SetPower implements providers.PowerController.
func (p *noAnswerOn) SetPower(
	ctx context.Context, op providers.Op, m providers.Machine, a providers.PowerAction,
) error {
	if a == providers.ActionOn {
		p.mu.Lock()
		p.quiet = 1
		p.mu.Unlock()
	}
	err := p.Provider.SetPower(ctx, op, m, a)
	if err == nil && a == providers.ActionOn {
		return providers.Errorf(providers.Transient, "press on", "the BMC is busy") // though it has pressed
	}
	return err
}

// A cycle whose first attempt failed after the power was off is not begun from the start.
func TestCycleIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{PowerTime: fake.Duration(time.Second)})
		l.Set = providers.SetOf(map[string]providers.Provider{"fake": &noAnswerOn{Provider: fake.New(l.Fleet)}})
		l.Machine("m-1")
		s := stepOf("s", &holdfastv1.Power{Action: "cycle", Force: true})
		s.TimeoutSeconds, s.MaxRetries = 120, new(int32(2))
		l.Plan("p", s)
		ld := l.lead(Config{})
		id := l.Start("m-1", "", "p", nil).GetRunId()
		l.Ended(id)
		ld.Stop()
		if diff := cmp.Diff(1, l.Destructive(id)["s/1/power_off"]+l.Destructive(id)["s/2/power_off"]); diff != "" {
			t.Errorf("presses of off (-want +got):\n%s\n%s", diff, l.Log(id, "system"))
		}
	})
}

// hardOnly is a machine whose BMC has no soft way off.
type hardOnly struct{ *fake.Provider }

// SetPower implements providers.PowerController.
func (p hardOnly) SetPower(
	ctx context.Context, op providers.Op, m providers.Machine, a providers.PowerAction,
) error {
	if a == providers.ActionSoftOff {
		return providers.Errorf(providers.Unsupported, "turn off softly", "the BMC supports On, ForceOff")
	}
	return p.Provider.SetPower(ctx, op, m, a)
}

// The power of a running system is not cut because its BMC has no soft way off. An operator may
// force it. What was pressed is in the machine's condition at once.
func TestNoSoftOff(t *testing.T) {
	for name, tt := range map[string]struct {
		step  proto.Message
		force bool
		want  []string
	}{
		"power off":         {&holdfastv1.Power{Action: "off"}, false, nil},
		"cycle":             {&holdfastv1.Power{Action: "cycle"}, false, nil},
		"reboot":            {&holdfastv1.Reboot{Mode: "bmc"}, false, nil},
		"power off, forced": {&holdfastv1.Power{Action: "off"}, true, []string{"hard-off"}},
		"reboot, forced":    {&holdfastv1.Reboot{Mode: "bmc"}, true, []string{"hard-off", "on"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{})
				l.Set = providers.SetOf(map[string]providers.Provider{"fake": hardOnly{fake.New(l.Fleet)}})
				l.Machine("m-1")
				l.Plan("p", stepOf("s", tt.step))
				ld := l.lead(Config{})
				var params map[string]string
				if tt.force {
					params = map[string]string{"force": "true"}
				}
				id := l.Start("m-1", "", "p", params).GetRunId()
				run := l.Ended(id)
				ld.Stop()
				if diff := cmp.Diff(tt.want, l.presses(id)); diff != "" {
					t.Errorf("presses (-want +got):\n%s\n%s", diff, l.Log(id, "system"))
				}
				if got := run.GetError().GetMessage(); !tt.force && !strings.Contains(got, "force") {
					t.Errorf("error: got %q, want the remedy", got)
				}
				if !tt.force {
					return
				}
				m, _ := l.FSM.View().Machine("m-1")
				on := false
				for _, c := range m.GetStatus().GetConditions() {
					if c.GetType() == "PoweredOn" {
						on = c.GetStatus() == (len(tt.want) == 2) && c.GetReason() == "ByRun"
					}
				}
				if !on {
					t.Errorf("conditions: got %v, want PoweredOn as the run has seen it", m.GetStatus().GetConditions())
				}
			})
		})
	}
}

// A host that was asked to reboot in band, and needs longer than an attempt, is not rebooted again
// by the next attempt: it has another boot id.
func TestSlowRebootInBandIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{BootTime: fake.Duration(90 * time.Second)})
		l.Machine("m-1")
		s := stepOf("s", &holdfastv1.Reboot{Mode: "inband"})
		s.TimeoutSeconds, s.MaxRetries = 40, new(int32(5))
		l.Plan("p", s)
		ld := l.lead(Config{})
		id := l.Start("m-1", "", "p", nil).GetRunId()
		run := l.Ended(id)
		ld.Stop()
		if n := len(run.GetSteps()[0].GetAttempts()); run.GetPhase() != holdfastv1.Run_SUCCEEDED || n < 2 {
			t.Errorf("run: got %s after %d attempts (%v), want SUCCEEDED after some\n%s", run.GetPhase(), n, run.GetError(),
				l.Log(id, "system"))
		}
		if got := effects(l, id)["reboot in band"]; got != 1 {
			t.Errorf("got %d reboots, want 1\n%s", got, l.Log(id, "system"))
		}
	})
}

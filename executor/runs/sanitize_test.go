package runs

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/executor/task"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// unclean is a host whose texts must be sanitized.
type unclean struct {
	*fake.Provider
	id func(boot string) string
}

func (p *unclean) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	f, err := p.Provider.Inspect(ctx, m)
	if f.BootID != "" {
		f.BootID = p.id(f.BootID)
	}
	f.Image = p.id(f.Image)
	return f, err
}

func (p *unclean) Inventory(context.Context, providers.Machine) (*providers.Inventory, error) {
	huge := strings.Repeat("\xffx", 1<<20)
	return &providers.Inventory{Serial: huge, Model: huge, CPUs: []providers.CPU{{Model: huge}},
		Missing: []string{huge}}, nil
}

// A run ends for every text that a host or BMC returns, and no leader crashes.
func TestHardwareTextIsSanitized(t *testing.T) {
	for name, id := range map[string]func(string) string{
		"no UTF-8": func(s string) string { return "\xff\xfe" + s },
		"too long": func(s string) string { return s + strings.Repeat("x", 1<<20) },
	} {
		for kind, s := range map[string]proto.Message{
			"reboot":    &holdfastv1.Reboot{Mode: "bmc"},
			"in band":   &holdfastv1.Reboot{Mode: "inband"},
			"inspect":   &holdfastv1.Inspect{},
			"inventory": &holdfastv1.ReadInventory{},
		} {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				l := newLab(t, fake.Config{PowerTime: fake.Duration(10 * time.Millisecond),
					BootTime: fake.Duration(20 * time.Millisecond)})
				l.Set = providers.SetOf(map[string]providers.Provider{"fake": &unclean{fake.New(l.Fleet), id}})
				l.Machine("m-1")
				l.Plan("p", stepOf("s", s))
				l.lead(quick())
				run := l.Ended(l.Start("m-1", "", "p", nil).GetRunId())
				if run.GetPhase() != holdfastv1.Run_SUCCEEDED {
					t.Errorf("run: got %s: %v", run.GetPhase(), run.GetError())
				}
				for _, a := range run.GetSteps()[0].GetAttempts() {
					for k, v := range a.GetEvidenceAfter() {
						if len(v) > task.MaxValue {
							t.Errorf("%s: got %d recorded bytes, want at most %d", k, len(v), task.MaxValue)
						}
					}
				}
			})
		}
	}
}

// A run with a step that cannot be recorded, before or after its effect, fails with that reason.
// The leader continues with other runs.
func TestUnrecordableRunFails(t *testing.T) {
	t.Parallel()
	for name, huge := range map[string]func(*internalv1.Command) bool{
		"intent":  func(c *internalv1.Command) bool { return c.GetBeginAttempt().GetRunId() != "" },
		"outcome": func(c *internalv1.Command) bool { return c.GetEndAttempt().GetRunId() != "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, fake.Config{})
			l.Machine("m-1")
			l.Machine("m-2")
			l.Plan("p", stepOf("s", &holdfastv1.Inspect{}))
			bad := l.Start("m-1", "", "p", nil).GetRunId()
			l.Huge = func(c *internalv1.Command) bool {
				return huge(c) && (c.GetBeginAttempt().GetRunId() == bad || c.GetEndAttempt().GetRunId() == bad)
			}
			l.lead(quick())
			if run := l.Ended(bad); run.GetPhase() != holdfastv1.Run_FAILED || run.GetError().GetReason() != "NotRecorded" ||
				!strings.Contains(run.GetError().GetMessage(), "too large") {
				t.Errorf("run: got %s: %v", run.GetPhase(), run.GetError())
			}
			if run := l.Ended(l.Start("m-2", "", "p", nil).GetRunId()); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
				t.Errorf("other run: got %s: %v", run.GetPhase(), run.GetError())
			}
		})
	}
}

// sanitize is idempotent, because recorded values are compared with later ones.
func TestSanitize(t *testing.T) {
	for in, want := range map[string]string{
		"":                                 "",
		"e3b0":                             "e3b0",
		"\xff":                             "\uFFFD",
		strings.Repeat("x", task.MaxValue): strings.Repeat("x", task.MaxValue),
		strings.Repeat("é", task.MaxValue): strings.Repeat("é", task.MaxValue/2-2) + "…",
	} {
		got := task.Value(in)
		if got != want || task.Value(got) != got {
			t.Errorf("%.20q…: got %.20q… of %d bytes, want %.20q… of %d; again: %.20q…", in, got, len(got), want, len(want),
				task.Value(got))
		}
	}
}

// slow is an install by a medium whose presses take effect late.
type slow struct {
	*fake.Provider
	mu    sync.Mutex
	power providers.PowerState
	next  providers.PowerState
	at    time.Time // when next takes effect
	done  []string
	begun bool
	on    bool
}

const showTime = 5 * time.Second

func (s *slow) Settle(providers.Machine) time.Duration { return 2 * showTime }

func (s *slow) now() providers.PowerState {
	if s.next != "" && time.Since(s.at) > showTime {
		s.power, s.next = s.next, ""
	}
	return s.power
}

func (s *slow) InstallStatus(context.Context, providers.Machine, string) (providers.InstallStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status(), nil
}

func (s *slow) status() providers.InstallStatus {
	st := providers.InstallStatus{State: providers.WorkRunning, Stage: "boots", Image: "default"}
	switch {
	case !s.begun:
		st.State = providers.WorkNone
	case s.on && s.now() == providers.PowerOn:
		st.State = providers.WorkDone
	case s.on || s.now() == providers.PowerOff:
		st.Due, st.Press = "power on", true
	default:
		st.Due, st.Press = "power off", true
	}
	return st
}

// asked returns the effects so far.
func (s *slow) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.done)
}

func (s *slow) StartInstall(context.Context, providers.Op, providers.Machine, providers.InstallSpec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status()
	if s.done = append(s.done, st.Due); st.State == providers.WorkNone {
		s.begun = true
		return nil
	}
	s.next, s.at = providers.PowerOff, time.Now()
	if st.Due == "power on" {
		s.next, s.on = providers.PowerOn, true
	}
	return providers.Errorf(providers.Timeout, "press", "the BMC does not answer")
}

// An install does not press again before the first press can have taken effect, even if that was
// not answered or another leader continues.
func TestInstallPressesOnce(t *testing.T) {
	for name, dies := range map[string]bool{"one leader": false, "the leader dies after each press": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{})
				s := &slow{Provider: fake.New(l.Fleet), power: providers.PowerOn}
				l.Set = providers.SetOf(map[string]providers.Provider{"fake": s})
				l.Machine("m-1")
				install := stepOf("s", &holdfastv1.RepaveImage{Image: "default"})
				install.TimeoutSeconds = 300
				l.Plan("p", install)
				leader := l.lead(Config{})
				id := l.Start("m-1", "", "p", nil).GetRunId()
				if dies {
					for pressed := 2; pressed <= 3; pressed++ {
						waitFor(t, func() bool { return len(s.asked()) == pressed })
						leader.Kill()
						<-leader.Done
						leader = l.lead(Config{})
					}
				}
				run := l.Ended(id)
				if run.GetPhase() != holdfastv1.Run_SUCCEEDED || len(run.GetSteps()[0].GetAttempts()) != 1 {
					t.Errorf("run: got %s: %v", run.GetPhase(), run.GetError())
				}
				if diff := cmp.Diff([]string{"", "power off", "power on"}, s.asked()); diff != "" {
					t.Errorf("done (-want +got):\n%s", diff)
				}
			})
		})
	}
}

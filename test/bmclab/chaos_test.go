//go:build linux

package bmclab

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/bmclab/chassis"
)

// front is a kind of BMC, and a plan that cycles the power through it: a BMC over IPMI cannot tell
// whether the host is up, so that a reboot would wait for it.
type front struct {
	name, plan string
	start      func(*Lab, *Machine) *BMC
}

func fronts() []front {
	return []front{
		{"redfish", "plan/reboot", func(l *Lab, m *Machine) *BMC { return l.Redfish([]*Machine{m}) }},
		{"ipmi", "plan/power-cycle", (*Lab).IPMI},
	}
}

// first calls f at the first press that turns, or is to turn, the machine off, before the BMC hears
// of it.
func first(m *Machine, f func()) {
	var once sync.Once
	m.OnEffect(func(e chassis.Effect) {
		if e.What == string(chassis.Off) || e.What == string(chassis.Soft) {
			once.Do(f)
		}
	})
}

func TestChaos(t *testing.T) {
	t.Parallel()
	l := open(t)
	s := openSite(t)
	for _, f := range fronts() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := s.in(t)

			// The BMC reboots while it has a press in hand: the answer never comes, and sessions
			// are lost.
			t.Run("RebootsMidCall", func(t *testing.T) {
				t.Parallel()
				s := s.in(t)
				m := l.Machine("reboots-" + f.name)
				b := f.start(l, m)
				s.register(m.Name(), b.Endpoint)
				var done sync.WaitGroup
				first(m, func() {
					b.Kill()
					done.Go(func() { b.Reboot(2 * time.Second) })
				})
				run := s.ended(s.start(m.Name(), f.plan, map[string]string{"force": "true"}))
				done.Wait()
				s.cycledOnce(m, run)
				s.tells(run, "attempt 1", "outcome is unknown|continues under")
			})

			// The BMC takes the press and says nothing for a while.
			t.Run("Hangs", func(t *testing.T) {
				t.Parallel()
				s := s.in(t)
				m := l.Machine("hangs-" + f.name)
				b := f.start(l, m)
				s.register(m.Name(), b.Endpoint)
				var done sync.WaitGroup
				first(m, func() {
					b.Hang()
					done.Go(func() {
						time.Sleep(8 * time.Second) // sleep: longer than any one call may take
						b.Resume()
					})
				})
				run := s.ended(s.start(m.Name(), f.plan, map[string]string{"force": "true"}))
				done.Wait()
				s.cycledOnce(m, run)
				s.tells(run, "attempt 1", "outcome is unknown|continues under")
			})

			// The BMC takes one press, and nothing happens.
			t.Run("LiesOnce", func(t *testing.T) {
				t.Parallel()
				s := s.in(t)
				m := l.Machine("lies-" + f.name)
				s.register(m.Name(), f.start(l, m).Endpoint)
				m.Lie(1)
				run := s.ended(s.start(m.Name(), "hasty-cycle", nil))
				s.cycledOnce(m, run)
				s.tells(run, "gave up after|continues under", "attempt 2|continues under")
			})

			// The BMC takes every press, and nothing happens: that is no success, and nothing is
			// made up.
			t.Run("LiesAlways", func(t *testing.T) {
				t.Parallel()
				s := s.in(t)
				m := l.Machine("liar-" + f.name)
				s.register(m.Name(), f.start(l, m).Endpoint)
				m.Lie(-1)
				run := s.ended(s.start(m.Name(), "hasty-cycle", nil))
				if got := changes(m.Done()); run.GetPhase() != holdfastv1.Run_FAILED || got != nil || !m.State().On {
					t.Errorf("run is %s, power went %v, want FAILED and a machine that was on all the time", run.GetPhase(), got)
				}
				s.tells(run, "gave up after", "waiting for the power to be off|continues under")
				t.Logf("the run says: %v", run.GetError())
			})
		})
	}
}

// A leader that dies between power-off and power-on: at the three moments that matter, as the
// machine sees them.
func TestLeaderDies(t *testing.T) {
	t.Parallel()
	l := open(t)
	s := openSite(t)
	bmcs := map[string]*BMC{} // those that count sessions, by machine
	for _, f := range fronts() {
		for _, k := range []struct {
			name string
			at   func(m *Machine, kill func())
		}{
			{"off", first},
			{"seen-off", func(m *Machine, kill func()) {
				var once sync.Once
				m.OnLook(func(st chassis.State) {
					if !st.On {
						once.Do(kill)
					}
				})
			}},
			{"on", func(m *Machine, kill func()) {
				var once sync.Once
				m.OnEffect(func(e chassis.Effect) {
					if e.What == string(chassis.On) {
						once.Do(kill)
					}
				})
			}},
		} {
			t.Run(f.name+"/"+k.name, func(t *testing.T) {
				s := s.in(t)
				m := l.Machine("dies-" + k.name + "-" + f.name)
				b := f.start(l, m)
				if f.name == "redfish" {
					bmcs[m.Name()] = b
				}
				s.register(m.Name(), b.Endpoint)
				leader := s.leader()
				k.at(m, func() {
					if err := leader.Kill(); err != nil {
						t.Error(err)
					}
				})
				run := s.ended(s.start(m.Name(), f.plan, nil))
				s.cycledOnce(m, run)
				s.tells(run, "attempt 1", "continues under the leader of term")
				attempts := run.GetSteps()[0].GetAttempts()
				if len(attempts) != 1 || len(attempts[0].GetEpochs()) < 2 {
					t.Errorf("%d attempts, the first by %v, want one by two leaders", len(attempts), attempts[0].GetEpochs())
				}
				if n := chassis.Presses(m.Done(), chassis.On); n != 1 {
					t.Errorf("on was pressed %d times, want once", n)
				}
				if n := chassis.Presses(m.Done(), chassis.Off) + chassis.Presses(m.Done(), chassis.Soft); n != 1 {
					t.Errorf("off was pressed %d times, want once", n)
				}
				if leader.Running() {
					t.Error("the leader lives: nothing was tested")
				}
				s.restart(leader)
			})
		}
	}
	// Whoever leads in the end speaks with each BMC, and ends what dead leaders have left there.
	// When all have stopped, no session is left.
	for id := range bmcs {
		if run := s.ended(s.start(id, "plan/inspect", nil)); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
			t.Errorf("look at %s: %s %v", id, run.GetPhase(), run.GetError())
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, b := range bmcs {
		if seen, err := b.Seen(t.Context()); err != nil || seen.Sessions != 0 {
			t.Errorf("BMC %s: %d sessions are left (%v), want none; %d logins", b.Endpoint, seen.Sessions, err, seen.Logins)
		}
	}
}

// tells checks that the log of a run says what happened: all of the words, of which some have
// alternatives (a busy machine may elect).
func (s *site) tells(run *holdfastv1.Run, words ...string) {
	s.t.Helper()
	said := s.log(run.GetRunId())
	for _, w := range words {
		if !slices.ContainsFunc(strings.Split(w, "|"), func(w string) bool { return strings.Contains(said, w) }) {
			s.t.Errorf("the log does not say %q:\n%s", w, said)
		}
	}
	s.t.Logf("the log:\n%s", said)
}

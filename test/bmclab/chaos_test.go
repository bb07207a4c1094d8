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

// bmcKind is a kind of BMC, and a plan that cycles the power through it. With IPMI, a reboot would
// wait for the host, which cannot be observed.
type bmcKind struct {
	name, plan string
	start      func(*Lab, *Machine) *BMC
}

func bmcKinds() []bmcKind {
	return []bmcKind{
		{"redfish", "plan/reboot", func(l *Lab, m *Machine) *BMC { return l.Redfish([]*Machine{m}) }},
		{"ipmi", "plan/power-cycle", (*Lab).IPMI},
	}
}

// first calls f at the first press that turns the machine off, or is ignored, before the BMC gets
// the response.
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
	for _, f := range bmcKinds() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := s.in(t)

			// The BMC reboots during a press: the answer is lost, and so are its sessions.
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
				s.logged(run, "attempt 1", "outcome is unknown|continues under")
			})

			// The BMC accepts the press and does not answer for a while.
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
				s.logged(run, "attempt 1", "outcome is unknown|continues under")
			})

			// The BMC accepts one press without an effect.
			t.Run("LiesOnce", func(t *testing.T) {
				t.Parallel()
				s := s.in(t)
				m := l.Machine("lies-" + f.name)
				s.register(m.Name(), f.start(l, m).Endpoint)
				m.Lie(1)
				run := s.ended(s.start(m.Name(), "hasty-cycle", nil))
				s.cycledOnce(m, run)
				s.logged(run, "gave up after|continues under", "attempt 2|continues under")
			})

			// The BMC accepts every press without an effect. That must not be reported as success.
			t.Run("LiesAlways", func(t *testing.T) {
				t.Parallel()
				s := s.in(t)
				m := l.Machine("liar-" + f.name)
				s.register(m.Name(), f.start(l, m).Endpoint)
				m.Lie(-1)
				run := s.ended(s.start(m.Name(), "hasty-cycle", nil))
				if got := changes(m.Done()); run.GetPhase() != holdfastv1.Run_FAILED || got != nil || !m.State().On {
					t.Errorf("got a run in %s and power changes %v, want FAILED and none", run.GetPhase(), got)
				}
				s.logged(run, "gave up after", "waiting for the power to be off|continues under")
				t.Logf("error of the run: %v", run.GetError())
			})
		})
	}
}

// TestLeaderDies kills the leader between power-off and power-on, at three moments as observed by
// the machine.
func TestLeaderDies(t *testing.T) {
	t.Parallel()
	l := open(t)
	s := openSite(t)
	bmcs := map[string]*BMC{} // BMCs that count sessions, by machine
	for _, f := range bmcKinds() {
		for _, k := range []struct {
			name string
			at   func(m *Machine, kill func())
		}{
			{"off", first},
			{"seen-off", func(m *Machine, kill func()) {
				var once sync.Once
				m.OnRead(func(st chassis.State) {
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
				s.logged(run, "attempt 1", "continues under the leader of term")
				attempts := run.GetSteps()[0].GetAttempts()
				if len(attempts) != 1 || len(attempts[0].GetEpochs()) < 2 {
					t.Errorf("got %d attempts, first epochs %v, want one of two leaders", len(attempts), attempts[0].GetEpochs())
				}
				if n := chassis.Presses(m.Done(), chassis.On); n != 1 {
					t.Errorf("got %d presses of on, want 1", n)
				}
				if n := chassis.Presses(m.Done(), chassis.Off) + chassis.Presses(m.Done(), chassis.Soft); n != 1 {
					t.Errorf("got %d presses of off, want 1", n)
				}
				if leader.Running() {
					t.Error("the leader is alive: nothing was tested")
				}
				s.restart(leader)
			})
		}
	}
	// The last leader uses each BMC, and ends the sessions that dead leaders have left. When all
	// peers have stopped, no session may be left.
	for id := range bmcs {
		if run := s.ended(s.start(id, "plan/inspect", nil)); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
			t.Errorf("inspect %s: got %s %v", id, run.GetPhase(), run.GetError())
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, b := range bmcs {
		if seen, err := b.Seen(t.Context()); err != nil || seen.Sessions != 0 {
			t.Errorf("sessions left on BMC %s: got %d (%v), want 0; %d logins", b.Endpoint, seen.Sessions, err, seen.Logins)
		}
	}
}

// logged checks that the log of a run matches all of the words. Some have alternatives, because a
// busy machine may elect another leader.
func (s *site) logged(run *holdfastv1.Run, words ...string) {
	s.t.Helper()
	text := s.log(run.GetRunId())
	for _, w := range words {
		if !slices.ContainsFunc(strings.Split(w, "|"), func(w string) bool { return strings.Contains(text, w) }) {
			s.t.Errorf("log of the run: got no %q:\n%s", w, text)
		}
	}
	s.t.Logf("log of the run:\n%s", text)
}

//go:build linux

package bmclab

import (
	"strings"
	"sync"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/bmclab/chassis"
)

// TestRebootOverIPMI reboots through a BMC with IPMI only, so that the host cannot be observed. The
// machine must go off and on once each, also if the leader dies during the press of on. The
// evidence must have the power-off, and the step must report that the host was not observed.
func TestRebootOverIPMI(t *testing.T) {
	t.Parallel()
	l := open(t)
	s := openSite(t)
	for _, k := range []struct {
		name  string
		crash bool // kill the leader when on is pressed
	}{{"reboots", false}, {"reboots-twice-led", true}} {
		t.Run(k.name, func(t *testing.T) {
			s := s.in(t)
			m := l.Machine(k.name)
			s.register(m.Name(), l.IPMI(m).Endpoint)
			leader := s.leader()
			if k.crash {
				var once sync.Once
				m.OnEffect(func(e chassis.Effect) {
					if e.What == string(chassis.On) {
						once.Do(func() {
							if err := leader.Kill(); err != nil {
								t.Error(err)
							}
						})
					}
				})
			}
			run := s.ended(s.start(m.Name(), "hard-reboot", nil))
			s.cycledOnce(m, run)
			if off, on := chassis.Presses(m.Done(), chassis.Off), chassis.Presses(m.Done(), chassis.On); off != 1 || on != 1 {
				t.Errorf("got %d presses of off and %d of on, want one each; effects: %+v", off, on, m.Done())
			}
			status := run.GetSteps()[0]
			attempts := status.GetAttempts()
			if len(attempts) != 1 || k.crash && len(attempts[0].GetEpochs()) < 2 {
				t.Fatalf("attempts: got %v, want one, of two leaders if one has died", attempts)
			}
			before, after := attempts[0].GetEvidenceBefore(), attempts[0].GetEvidenceAfter()
			seenOff, err := time.Parse(time.RFC3339Nano, after["power_off_seen"])
			if before["power"] != "on" || after["power"] != "on" || err != nil || after["boot_id"] != "" {
				t.Errorf("evidence: got %v, then %v, want on, the time when off was observed, on, and no boot id", before, after)
			}
			if begun, ended := attempts[0].GetStartedAt().AsTime(),
				attempts[0].GetFinishedAt().AsTime(); seenOff.Before(begun) || seenOff.After(ended) {
				t.Errorf("got off at %s, want a time in the attempt from %s to %s", seenOff, begun, ended)
			}
			if !strings.Contains(status.GetMessage(), "cannot observe whether the host is up") {
				t.Errorf("message of the step: got %q", status.GetMessage())
			}
			if k.crash {
				if leader.Running() {
					t.Error("the leader is alive: nothing was tested")
				}
				s.logged(run, "attempt 1", "continues under the leader of term")
				s.restart(leader)
			}
			if run.GetPhase() == holdfastv1.Run_SUCCEEDED {
				t.Logf("off and on in %s",
					attempts[0].GetFinishedAt().AsTime().Sub(attempts[0].GetStartedAt().AsTime()).Round(time.Second))
			}
		})
	}
}

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

// A reboot through a BMC that speaks IPMI alone: the host cannot be observed, so what
// there is to see is the evidence. The machine goes off and on, once each, also when the leader
// dies with on in hand; that it was seen off is recorded, and the step says what nobody knows.
func TestRebootOverIPMI(t *testing.T) {
	t.Parallel()
	l := open(t)
	s := openSite(t)
	for _, k := range []struct {
		name string
		dies bool // the leader, when on is pressed
	}{{"reboots", false}, {"reboots-twice-led", true}} {
		t.Run(k.name, func(t *testing.T) {
			s := s.in(t)
			m := l.Machine(k.name)
			s.register(m.Name(), l.IPMI(m).Endpoint)
			leader := s.leader()
			if k.dies {
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
				t.Errorf("off was pressed %d times and on %d times, want each once; the chassis has seen %+v", off, on, m.Done())
			}
			status := run.GetSteps()[0]
			attempts := status.GetAttempts()
			if len(attempts) != 1 || k.dies && len(attempts[0].GetEpochs()) < 2 {
				t.Fatalf("attempts are %v, want one, by two leaders where one has died", attempts)
			}
			before, after := attempts[0].GetEvidenceBefore(), attempts[0].GetEvidenceAfter()
			seenOff, err := time.Parse(time.RFC3339Nano, after["power_off_seen"])
			if before["power"] != "on" || after["power"] != "on" || err != nil || after["boot_id"] != "" {
				t.Errorf("evidence is %v, then %v; want on, when it was seen off, on again, and no boot id", before, after)
			}
			if begun, ended := attempts[0].GetStartedAt().AsTime(),
				attempts[0].GetFinishedAt().AsTime(); seenOff.Before(begun) || seenOff.After(ended) {
				t.Errorf("seen off at %s, in an attempt from %s to %s", seenOff, begun, ended)
			}
			if !strings.Contains(status.GetMessage(), "cannot observe whether the host is up") {
				t.Errorf("the step says %q", status.GetMessage())
			}
			if k.dies {
				if leader.Running() {
					t.Error("the leader lives: nothing was tested")
				}
				s.tells(run, "attempt 1", "continues under the leader of term")
				s.restart(leader)
			}
			if run.GetPhase() == holdfastv1.Run_SUCCEEDED {
				t.Logf("off and on in %s",
					attempts[0].GetFinishedAt().AsTime().Sub(attempts[0].GetStartedAt().AsTime()).Round(time.Second))
			}
		})
	}
}

package runs

import (
	"context"
	"errors"
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

// lossy presses the buttons of fake machines, but loses the answer.
type lossy struct {
	*fake.Provider
	mu      sync.Mutex
	ignores int // number of presses that are lost too
}

func (d *lossy) SetPower(ctx context.Context, op providers.Op, m providers.Machine, a providers.PowerAction) error {
	d.mu.Lock()
	ignores := d.ignores > 0
	d.ignores--
	d.mu.Unlock()
	if !ignores {
		if err := d.Provider.SetPower(ctx, op, m, a); err != nil {
			return err
		}
	}
	return providers.Errorf(providers.Timeout, "press "+string(a), "%w", errors.New("the BMC reboots"))
}

// A press without an answer is not a failure: the machine is polled, and nothing is pressed twice.
// A press without an effect in time is retried.
func TestPressWithoutAnswer(t *testing.T) {
	cycle, reboot := &holdfastv1.Power{Action: "cycle", Force: true}, &holdfastv1.Reboot{Mode: "bmc", Force: true}
	for _, tc := range []struct {
		name     string
		kind     proto.Message
		ignores  int
		attempts int
		want     []string
	}{
		{"cycle", cycle, 0, 1, []string{"hard-off", "on"}},
		{"reboot", reboot, 0, 1, []string{"hard-off", "on"}},
		{"soft cycle", &holdfastv1.Power{Action: "cycle"}, 0, 1, []string{"soft-off", "on"}},
		{"soft reboot", &holdfastv1.Reboot{Mode: "bmc"}, 0, 1, []string{"soft-off", "on"}},
		{"cycle, first press lost", cycle, 1, 2, []string{"hard-off", "on"}},
		{"reboot, first press lost", reboot, 1, 2, []string{"hard-off", "on"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{PowerTime: fake.Duration(500 * time.Millisecond), BootTime: fake.Duration(time.Second)})
				l.Set = providers.SetOf(map[string]providers.Provider{"fake": &lossy{Provider: fake.New(l.Fleet),
					ignores: tc.ignores}})
				l.Machine("m-1")
				s := stepOf("s", tc.kind)
				s.TimeoutSeconds = 120
				l.Plan("p", s)
				l.lead(Config{})
				run := l.Ended(l.Start("m-1", "", "p", nil).GetRunId())
				if n := len(run.GetSteps()[0].GetAttempts()); run.GetPhase() != holdfastv1.Run_SUCCEEDED || n != tc.attempts {
					t.Errorf("run: got %s after %d attempts, want SUCCEEDED after %d: %v", run.GetPhase(), n, tc.attempts,
						run.GetError())
				}
				if diff := cmp.Diff(tc.want, l.presses(run.GetRunId())); diff != "" {
					t.Errorf("presses (-want +got):\n%s", diff)
				}
				if log := l.Log(run.GetRunId(), "system"); !strings.Contains(log, "the BMC reboots") ||
					!strings.Contains(log, "the outcome is unknown") {
					t.Errorf("log: got no unknown outcome:\n%s", log)
				}
			})
		})
	}
}

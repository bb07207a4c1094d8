package runs

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// button records the calls about the power of machines.
type button struct {
	providers.Provider
	mu    sync.Mutex
	calls []string
}

func (b *button) record(call string) providers.PowerController {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, call)
	return b.Provider.(providers.PowerController)
}

// PowerState implements providers.PowerController.
func (b *button) PowerState(ctx context.Context, m providers.Machine) (providers.PowerState, error) {
	return b.record("state").PowerState(ctx, m)
}

// SetPower implements providers.PowerController.
func (b *button) SetPower(
	ctx context.Context, op providers.Op, m providers.Machine, a providers.PowerAction,
) error {
	defer time.Sleep(time.Millisecond) // sleep: fake clock, until the press takes effect
	return b.record(string(a)).SetPower(ctx, op, m, a)
}

// A power cycle observes the power right before and after each press, and not more often.
func TestCallsOfAPowerCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{PowerTime: fake.Duration(time.Microsecond)})
		b := &button{Provider: fake.New(l.Fleet)}
		l.Set = providers.SetOf(map[string]providers.Provider{"fake": b})
		l.Plan("p", stepOf("s", &holdfastv1.Power{Action: "cycle", Force: true}))
		l.Machine("m-1")
		id := l.Start("m-1", "", "p", nil).GetRunId()
		ld := l.lead(quick())
		if run := l.Ended(id); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
			t.Errorf("run: got %v, want SUCCEEDED", run)
		}
		ld.Stop()
		want := []string{
			"state", // before the intent
			"state", string(providers.ActionHardOff), "state",
			"state", string(providers.ActionOn), "state",
		}
		if diff := cmp.Diff(want, b.calls); diff != "" {
			t.Errorf("calls, -want +got:\n%s", diff)
		}
	})
}

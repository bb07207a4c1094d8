package runs

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// button records the calls about the power of machines.
type button struct {
	providers.Provider
	hidePower bool // Inspect does not return the power state

	mu    sync.Mutex
	calls []string
}

func (b *button) record(call string) providers.PowerController {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, call)
	return b.Provider.(providers.PowerController)
}

// Inspect implements providers.Inspector.
func (b *button) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	b.record("inspect")
	f, err := b.Provider.(providers.Inspector).Inspect(ctx, m)
	if b.hidePower {
		f.Power = providers.PowerUnknown
	}
	return f, err
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

// The power is read once before the intent, which decides about the first press, and once after
// each press, which also decides about the next. A reading that is old by then, or that needs no
// press, is repeated. An inspection includes the power if the BMC's answer has it.
func TestReadsOfThePower(t *testing.T) {
	const off, on = string(providers.ActionHardOff), string(providers.ActionOn)
	cycle := &holdfastv1.Power{Action: "cycle", Force: true}
	for name, tt := range map[string]struct {
		step      proto.Message
		hidePower bool
		commit    time.Duration
		want      []string
	}{
		"cycle":               {cycle, false, 0, []string{"state", off, "state", on, "state"}},
		"cycle, slow commits": {cycle, false, time.Second, []string{"state", "state", off, "state", "state", on, "state"}},
		"on already":          {&holdfastv1.Power{Action: "on"}, false, 0, []string{"state", "state"}},
		"inspect":             {&holdfastv1.Inspect{}, false, 0, []string{"inspect"}},
		"inspect, hidden":     {&holdfastv1.Inspect{}, true, 0, []string{"inspect", "state"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{PowerTime: fake.Duration(time.Microsecond)})
				b := &button{Provider: fake.New(l.Fleet), hidePower: tt.hidePower}
				l.Set = providers.SetOf(map[string]providers.Provider{"fake": b})
				l.Plan("p", stepOf("s", tt.step))
				l.Machine("m-1")
				id := l.Start("m-1", "", "p", nil).GetRunId()
				l.Commit = func(cmd *internalv1.Command) {
					if cmd.GetAppendRunLogs() == nil {
						time.Sleep(tt.commit) // sleep: fake clock
					}
				}
				cfg := quick()
				cfg.LogFlush = time.Hour
				ld := l.lead(cfg)
				if run := l.Ended(id); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
					t.Errorf("run: got %v, want SUCCEEDED", run)
				}
				ld.Stop()
				if diff := cmp.Diff(tt.want, b.calls); diff != "" {
					t.Errorf("calls, -want +got:\n%s", diff)
				}
			})
		})
	}
}

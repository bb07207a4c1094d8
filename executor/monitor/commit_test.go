package monitor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
)

// entries records the commands of the monitor.
type entries struct {
	began    time.Time
	at       []time.Duration
	machines int
	largest  int // bytes
}

func (e *entries) Apply(_ context.Context, c *internalv1.Command) (fsm.Result, error) {
	e.at = append(e.at, time.Since(e.began))
	e.machines += len(c.GetObserveConditions().GetMachines())
	e.largest = max(e.largest, proto.Size(c))
	return fsm.Result{}, nil
}

// Under load, conditions are committed about once per second, and no entry exceeds the limit of the
// log. A single change is committed sooner.
func TestChangesShareEntries(t *testing.T) {
	for _, tt := range []struct {
		name        string
		gap         time.Duration // between the changes of two machines
		machines    int
		text        int // bytes of a message
		least, most int // entries
	}{
		{"one machine", 0, 1, 10, 1, 1},
		{"a fleet comes up", time.Second / 1500, 15_000, 10, 30, 34}, // 500 machines in one
		{"one machine every three seconds", 3 * time.Second, 5, 10, 5, 5},
		{"large changes", time.Second / 1500, 3000, 400, 5, 12},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &entries{began: time.Now()}
				ctx, stop := context.WithCancel(t.Context())
				mon := newTerm(ctx, New(Config{}, e, nil, providers.SetOf(nil)), 1)
				done := make(chan error, 1)
				go func() { done <- mon.commit(ctx) }()
				for i := range tt.machines {
					mon.changes <- &internalv1.MachineConditions{MachineId: fmt.Sprintf("m-%06d", i),
						Conditions: []*holdfastv1.Condition{
							{Type: condReachable, Unknown: true, Reason: "NoProvider", Message: strings.Repeat("x", tt.text)}}}
					time.Sleep(tt.gap) // sleep: in a synctest bubble
				}
				time.Sleep(2 * time.Second) // sleep: in a synctest bubble
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if e.machines != tt.machines || len(e.at) < tt.least || len(e.at) > tt.most {
					t.Errorf("got changes of %d machines in %d entries, want %d in %d to %d", e.machines, len(e.at), tt.machines,
						tt.least, tt.most)
				}
				if e.largest > 512<<10 {
					t.Errorf("got an entry of %d bytes, want at most 512 KiB", e.largest)
				}
				if len(e.at) > 0 && e.at[0] > linger {
					t.Errorf("first commit: got it after %v, want %v", e.at[0], linger)
				}
			})
		})
	}
}

package workload

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestTrafficLastsUntilEnough ends the context of a workload and then makes the calls that are
// missing, or some of them.
func TestTrafficLastsUntilEnough(t *testing.T) {
	kinds := []Kind{StartRun, CancelRun, GetRun, UpdateMachine, GetMachine, ListMachines, CreatePlan, GetPlan}
	for name, tt := range map[string]struct {
		calls []Kind
		want  time.Duration // after the end of ctx, and up to 200 ms less
	}{
		"all calls":     {calls: kinds, want: 3*time.Second + 200*time.Millisecond},
		"no GetPlan":    {calls: kinds[:len(kinds)-1], want: enoughTime},
		"only StartRun": {calls: kinds[:1], want: enoughTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &Workload{cfg: Config{MinOps: len(tt.calls)}, rec: &Recorder{base: time.Now()}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				longer, stop := w.untilEnough(ctx)
				defer stop()
				<-ctx.Done()
				ended := time.Now()
				time.Sleep(3 * time.Second) // sleep: of synctest
				if longer.Err() != nil {
					t.Fatal("the traffic ended without calls")
				}
				w.rec.mu.Lock()
				for _, k := range tt.calls {
					w.rec.ops = append(w.rec.ops, Op{Kind: k, Outcome: OK})
				}
				w.rec.mu.Unlock()
				<-longer.Done()
				if got := time.Since(ended); got > tt.want || got < tt.want-200*time.Millisecond {
					t.Errorf("traffic ended %s after its context, want %s", got, tt.want)
				}
			})
		})
	}
}

package rollout

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// traffic writes continuously, keeps runs in progress, and counts failures.
type traffic struct {
	c       *client.Client
	prefix  string
	stop    context.CancelFunc
	done    sync.WaitGroup
	mu      sync.Mutex
	writes  int
	longest time.Duration // from the first try of a write to its success
	runs    int
	failed  []string
}

// machines is the number of runs in progress.
const machines = 8

func (l *lab) traffic(t *testing.T, prefix string) *traffic {
	t.Helper()
	tr := &traffic{c: l.client(t), prefix: prefix}
	ctx, stop := context.WithCancel(t.Context())
	tr.stop = stop
	tr.done.Go(func() { tr.write(ctx) })
	for i := range machines {
		tr.done.Go(func() { tr.repave(ctx, fmt.Sprintf("%s-m%d", prefix, i)) })
	}
	return tr
}

// write makes one write after the other, and retries each until it succeeds.
func (tr *traffic) write(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		start := time.Now()
		id := fmt.Sprintf("%s-w%d", tr.prefix, n)
		tr.insist(ctx, "write "+id, func(ctx context.Context) error {
			_, err := tr.c.Machines().RegisterMachine(ctx,
				&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: id}})
			return err
		})
		if ctx.Err() == nil {
			tr.mu.Lock()
			tr.writes, tr.longest = tr.writes+1, max(tr.longest, time.Since(start))
			tr.mu.Unlock()
		}
		_ = wait.Sleep(ctx, 20*time.Millisecond)
	}
}

// patience bounds the retries of a call.
const patience = 30 * time.Second

// insist retries a call until it succeeds or patience is over. A write with an unknown outcome may
// turn out to be applied.
func (tr *traffic) insist(ctx context.Context, name string, do func(context.Context) error) bool {
	for deadline := time.Now().Add(patience); ; {
		err := do(ctx)
		if err == nil || status.Code(err) == codes.AlreadyExists {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if time.Now().After(deadline) {
			tr.mu.Lock()
			tr.failed = append(tr.failed, fmt.Sprintf("%s: %v", name, err))
			tr.mu.Unlock()
			return false
		}
		_ = wait.Sleep(ctx, 20*time.Millisecond)
	}
}

// repave starts one run after the other on a machine, and waits for each end, also for that of the
// last one after stopped.
func (tr *traffic) repave(stopped context.Context, id string) {
	ctx := context.WithoutCancel(stopped)
	registered := tr.insist(ctx, "register "+id, func(ctx context.Context) error {
		_, err := tr.c.Machines().RegisterMachine(ctx,
			&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: id,
				Spec: &holdfastv1.MachineSpec{Provider: "fake"}}})
		return err
	})
	for n := 0; registered && stopped.Err() == nil; n++ {
		var run *holdfastv1.Run
		started := tr.insist(ctx, "start a run on "+id, func(ctx context.Context) (err error) {
			run, err = tr.c.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: fmt.Sprintf("%s-%d", id, n),
				MachineId: id, Type: "REPAVE", PlanId: "plan/repave-join"})
			return err
		})
		if !started {
			return
		}
		limited, cancel := context.WithTimeout(ctx, 3*time.Minute)
		ended, err := tr.c.WaitRun(limited, run.GetRunId())
		cancel()
		tr.mu.Lock()
		tr.runs++
		if err != nil || ended.GetPhase() != holdfastv1.Run_SUCCEEDED {
			tr.failed = append(tr.failed, fmt.Sprintf("%s: %s: %v", run.GetRunId(), ended.GetPhase(), err))
		}
		tr.mu.Unlock()
	}
}

// end stops the traffic, and checks the promises: no run has failed, and no write took longer than
// 3 s.
func (tr *traffic) end(t *testing.T, during string) {
	t.Helper()
	tr.stop()
	tr.done.Wait()
	t.Logf("during %s: %d writes, the longest took %s; %d runs, %d failed", during, tr.writes,
		tr.longest.Round(time.Millisecond), tr.runs, len(tr.failed))
	if tr.writes == 0 || tr.runs == 0 {
		t.Errorf("%s: got no traffic", during)
	}
	if len(tr.failed) > 0 {
		t.Errorf("%s: got failed runs %v", during, tr.failed)
	}
	if tr.longest > 3*time.Second {
		t.Errorf("%s: got a write of %s, want at most 3 s", during, tr.longest)
	}
}

package crash

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

const callers = 200

// TestConcurrentStartRun starts runs from many clients at once through all peers, while the leader
// lives or dies. A request id must name one run, and a machine must have one active run.
func TestConcurrentStartRun(t *testing.T) {
	t.Parallel()
	c := bench.Cluster(t, harness.Options{})
	c.Plan("wait", step("wait", &holdfastv1.SshCommand{Script: "sleep 600\n"}))
	for _, kill := range []bool{false, true} {
		for _, same := range []bool{true, false} {
			t.Run(fmt.Sprintf("same-id=%v/leader-dies=%v", same, kill), func(t *testing.T) {
				if testing.Short() && kill {
					t.Skip("takes long: run without -short")
				}
				startTogether(t, c.In(t), fmt.Sprintf("m-%v-%v", same, kill), same, kill)
			})
		}
	}
}

type answer struct {
	run *holdfastv1.Run
	err error
}

func startTogether(t *testing.T, c *harness.Cluster, machine string, same, kill bool) {
	c.Register(machine)
	answers := call(t, c, kill, func(cl *client.Client, i int) (*holdfastv1.Run, error) {
		id := "the-one"
		if !same {
			id = fmt.Sprintf("request-%d", i)
		}
		return cl.Runs().StartRun(t.Context(), &holdfastv1.StartRunRequest{RequestId: id, MachineId: machine, PlanId: "wait"})
	})
	runs := map[string]int{}
	var refused []error
	for _, a := range answers {
		if a.err != nil {
			refused = append(refused, a.err)
			continue
		}
		runs[a.run.GetRunId()]++
	}
	list, err := c.Client.Runs().ListRuns(t.Context(),
		&holdfastv1.ListRunsRequest{Filter: filter.Equals("machine_id", machine)})
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 1 || len(list.GetRuns()) != 1 || runs[list.GetRuns()[0].GetRunId()] == 0 {
		t.Fatalf("runs: got %v in answers and %d of the machine, want one (refusals: %v)", runs, len(list.GetRuns()), refused)
	}
	id := list.GetRuns()[0].GetRunId()
	if want := callers - runs[id]; len(refused) != want || same && want != 0 || !same && runs[id] != 1 {
		t.Errorf("got %d answers with the run and %d refusals, same request id = %v", runs[id], len(refused), same)
	}
	for _, err := range refused {
		if e := busy(err, id); e != nil {
			t.Error(e)
			break
		}
	}
	if _, err := c.Client.Runs().CancelRun(t.Context(), &holdfastv1.CancelRunRequest{RunId: id}); err != nil {
		t.Fatal(err)
	}
	if run := c.Ended(id); run.GetPhase() != holdfastv1.Run_CANCELED {
		t.Errorf("canceled run: got %s: %v", run.GetPhase(), run.GetError())
	}
	if n := harness.Count(c.Effects(machine, ""), "command"); n > 1 {
		t.Errorf("command: got %d starts, want at most 1", n)
	}
}

// call makes all calls at once, each through another peer first. With kill, it kills the leader
// when some were answered.
func call(
	t *testing.T, c *harness.Cluster, kill bool, start func(*client.Client, int) (*holdfastv1.Run, error),
) []answer {
	t.Helper()
	leader := c.TheLeader()
	clients := c.Rotated()
	answers := make([]answer, callers)
	var done atomic.Int32
	some := make(chan struct{})
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			run, err := start(clients[i%len(clients)], i)
			answers[i] = answer{run, err}
			if done.Add(1) == callers/10 {
				close(some)
			}
		})
	}
	if kill {
		<-some
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if kill {
		c.Restart(leader)
	}
	return answers
}

// busy returns an error if the refusal of a second run on a machine is wrong.
func busy(err error, active string) error {
	st := status.Convert(err)
	if st.Code() != codes.FailedPrecondition || client.Reason(err) != "ACTIVE_RUN" ||
		!strings.Contains(st.Message(), active) {
		return fmt.Errorf("refusal: got %w (reason %q), want FAILED_PRECONDITION, ACTIVE_RUN, and run %s", err,
			client.Reason(err), active)
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetMetadata()["run_id"] == active {
			return nil
		}
	}
	return fmt.Errorf("details of the refusal: want run %s, got %v", active, st.Details())
}

// TestRequestConflict checks that a request id with another body is refused on every peer, with the
// difference.
func TestRequestConflict(t *testing.T) {
	t.Parallel()
	c := bench.Cluster(t, harness.Options{})
	c.Register("m-1")
	c.Plan("one", step("s", &holdfastv1.SshCommand{Command: "true"}))
	c.Plan("two", step("s", &holdfastv1.SshCommand{Command: "true"}))
	ctx, stop := context.WithTimeout(t.Context(), harness.Patience)
	defer stop()
	for i, cl := range c.Rotated() {
		run, err := cl.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: "r", MachineId: "m-1", PlanId: "one"})
		if err != nil {
			t.Fatalf("peer %d: %v", i+1, err)
		}
		c.CheckRun(c.Ended(run.GetRunId()))
		_, err = cl.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: "r", MachineId: "m-1", PlanId: "two"})
		if status.Code(err) != codes.AlreadyExists || !strings.Contains(err.Error(), `plan_id is "two", was "one"`) {
			t.Errorf("peer %d: got error %v, want ALREADY_EXISTS and the difference", i+1, err)
		}
	}
}

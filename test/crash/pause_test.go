package crash

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

const (
	pauseTime   = 5 * time.Second // far longer than any election
	pauseRounds = 3
	lateReads   = 16 // reads waiting in the socket of the stopped process
)

// TestPausedLeader checks that a leader that is stopped and resumed neither answers reads from its
// old state nor repeats the work of the next leader.
func TestPausedLeader(t *testing.T) {
	long(t)
	t.Parallel()
	c := bench.Cluster(t, harness.Options{})
	c.Plan("reboot", step("restart", &holdfastv1.Reboot{Mode: "bmc"}))
	c.Plan("repave", step("boot", &holdfastv1.SetNetboot{Mode: "PXE"}),
		step("install", &holdfastv1.RepaveImage{Image: "debian-13"}))
	c.Plan("talk", step("talk", &holdfastv1.SshCommand{Script: bystanderScript}))
	c.Register("m-read")
	reads := &readings{}
	for round := range pauseRounds {
		pauseOnce(t, c, reads, round)
	}
	t.Logf("linearizable reads at the paused peer: %d answered, none stale; %d refused",
		reads.answered.Load(), reads.refused.Load())
	if reads.answered.Load() == 0 {
		t.Error("got no answered read: the test proves nothing")
	}
}

// readings compares each read with the writes acknowledged before it began.
type readings struct {
	acked             atomic.Int64
	answered, refused atomic.Int64
}

func (r *readings) read(ctx context.Context, t *testing.T, conn grpc.ClientConnInterface) {
	before := r.acked.Load()
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	m, err := holdfastv1.NewMachineServiceClient(conn).GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: "m-read"})
	if err != nil {
		r.refused.Add(1)
		return
	}
	r.answered.Add(1)
	got, err := strconv.ParseInt(m.GetLabels()["n"], 10, 64)
	if err != nil && before > 0 || got < before {
		t.Errorf("linearizable read: got %q, want at least %d, which was acknowledged before", m.GetLabels()["n"], before)
	}
}

// write writes the next number, and records it once it is acknowledged.
func (r *readings) write(t *testing.T, cl *client.Client) {
	t.Helper()
	n := r.acked.Load() + 1
	_, err := cl.Machines().UpdateMachine(t.Context(), &holdfastv1.UpdateMachineRequest{
		Machine:    &holdfastv1.Machine{MachineId: "m-read", Labels: map[string]string{"n": fmt.Sprint(n)}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels.n"}}})
	if err != nil {
		t.Fatalf("write %d: %v", n, err)
	}
	r.acked.Store(n)
}

func pauseOnce(t *testing.T, c *harness.Cluster, reads *readings, round int) {
	leader := c.TheLeader()
	conn := c.Conn(leader)
	reads.write(t, c.Client)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				reads.read(ctx, t, conn)
			}
		})
	}
	var runs []string
	for i := range 4 {
		for _, plan := range []string{"reboot", "repave", "talk"} {
			machine := fmt.Sprintf("m-%d-%s-%d", round, plan, i)
			c.Register(machine)
			runs = append(runs, c.Start(machine, plan).GetRunId())
		}
	}
	harness.Until(t, "an effect", func() (bool, any) {
		n := len(c.Effects("", runs[len(runs)-1]))
		return n > 0, n
	})

	began := time.Now()
	if err := leader.Pause(); err != nil {
		t.Fatal(err)
	}
	next := c.TheLeader() // the paused peer gets no calls
	others := c.Dial(next.GRPCAddr)
	reads.write(t, others)
	t.Logf("round %d: the next leader acknowledged a write %s after the pause", round,
		time.Since(began).Round(time.Millisecond))
	for range lateReads {
		wg.Go(func() { reads.read(t.Context(), t, conn) })
	}
	for wait := time.NewTimer(pauseTime - time.Since(began)); ; {
		select { // the others continue meanwhile
		case <-wait.C:
		default:
			reads.write(t, others)
			continue
		}
		break
	}
	if err := leader.Resume(); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "reads at the resumed peer", func() (bool, any) {
		before := reads.answered.Load()
		reads.write(t, others)
		reads.read(t.Context(), t, conn)
		return reads.answered.Load() > before+4, before
	})
	stop()
	wg.Wait()

	for _, id := range runs {
		run := c.Ended(id)
		c.CheckRun(run)
		if run.GetPlanId() == "talk" {
			checkOutput(t, c.Log(id, "stdout"), bystanderScript)
		}
	}
	c.Ready()
}

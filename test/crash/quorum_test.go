package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// The deadline of a call, and the extra time for a busy machine.
const (
	callTime  = 1500 * time.Millisecond
	callSlack = 2 * time.Second
)

// TestNoQuorum checks the last peer of three, which led or followed. It must refuse in time the
// calls that need a majority, and answer the others.
func TestNoQuorum(t *testing.T) {
	long(t)
	t.Parallel()
	c := bench.Cluster(t, harness.Options{})
	c.Register("m-1")
	for _, leads := range []bool{true, false} {
		t.Run(fmt.Sprintf("leader=%v", leads), func(t *testing.T) {
			c := c.In(t)
			leader, followers := c.TheLeader(), c.Followers()
			last, dead := leader, followers
			if !leads {
				last, dead = followers[0], []*localcluster.Peer{leader, followers[1]}
			}
			refusals(t, c, last, dead)
		})
	}
}

func refusals(t *testing.T, c *harness.Cluster, last *localcluster.Peer, dead []*localcluster.Peer) {
	for _, p := range dead {
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	conn := c.Conn(last)
	began := time.Now()
	// At once, while the peer may still believe that it leads, and after it has noticed.
	for _, at := range []string{"at once", "later"} {
		if at == "later" {
			harness.Until(t, "the peer to notice that there is no leader", func() (bool, any) {
				r, err := last.Readiness(t.Context())
				return err == nil && !r.Ready && r.Role != "leader", r
			})
		}
		refused(t, at+": write", func(ctx context.Context) error { return label(ctx, conn, "x") })
		refused(t, at+": start", func(ctx context.Context) error {
			_, err := holdfastv1.NewRunServiceClient(conn).StartRun(ctx,
				&holdfastv1.StartRunRequest{RequestId: "r-" + at, MachineId: "m-1", Type: "REBOOT"})
			return err
		})
		refused(t, at+": linearizable read", func(ctx context.Context) error { _, err := get(ctx, conn); return err })
		ctx, stop := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), client.HeaderConsistency, "stale"),
			callTime+callSlack)
		if _, err := get(ctx, conn); err != nil {
			t.Errorf("%s: stale read: %v", at, err)
		}
		if st, err := holdfastv1.NewClusterServiceClient(conn).GetClusterStatus(ctx,
			&holdfastv1.GetClusterStatusRequest{}); err != nil {
			t.Errorf("%s: status: %v", at, err)
		} else if at == "later" && (st.GetLeader() != "" || st.GetAnsweredBy() != last.ID) {
			t.Errorf("%s: status: got %v, want one from %s without a leader", at, st, last.ID)
		}
		stop()
	}
	t.Logf("without a quorum for %s", time.Since(began).Round(time.Millisecond))

	for _, p := range dead {
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.Ready()
	ctx, stop := context.WithTimeout(t.Context(), harness.Patience)
	defer stop()
	if err := label(ctx, conn, "back"); err != nil {
		t.Fatalf("write after the quorum is back: %v", err)
	}
	m, err := get(ctx, conn)
	if err != nil || m.GetLabels()["n"] != "back" {
		t.Errorf("read after the quorum is back: %v, %v", m.GetLabels(), err)
	}
	for _, id := range activeRuns(t, c) { // those whose start had an unknown outcome
		c.CheckRun(c.Ended(id))
	}
}

func get(ctx context.Context, conn grpc.ClientConnInterface) (*holdfastv1.Machine, error) {
	return holdfastv1.NewMachineServiceClient(conn).GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: "m-1"})
}

func label(ctx context.Context, conn grpc.ClientConnInterface, value string) error {
	_, err := holdfastv1.NewMachineServiceClient(conn).UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{
		Machine: &holdfastv1.Machine{MachineId: "m-1",
			Labels: map[string]string{"n": value}}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels.n"}}})
	return err
}

// refused checks that a call fails as UNAVAILABLE with a reason, before its deadline. On a busy
// machine it is tried again.
func refused(t *testing.T, name string, call func(context.Context) error) {
	t.Helper()
	var err error
	var took time.Duration
	for range 3 {
		ctx, stop := context.WithTimeout(t.Context(), callTime)
		began := time.Now()
		err = call(ctx)
		took = time.Since(began)
		stop()
		if status.Code(err) != codes.DeadlineExceeded {
			break
		}
	}
	if status.Code(err) != codes.Unavailable || client.Reason(err) == "" {
		t.Errorf("%s: got error %v (reason %q) after %s, want UNAVAILABLE with a reason", name, err, client.Reason(err), took)
	}
	if took > callTime+callSlack {
		t.Errorf("%s: took %s, want at most %s", name, took, callTime)
	}
	t.Logf("%s: %s %s after %s: %v", name, status.Code(err), client.Reason(err), took.Round(time.Millisecond), err)
}

func activeRuns(t *testing.T, c *harness.Cluster) []string {
	t.Helper()
	list, err := c.Client.Runs().ListRuns(t.Context(),
		&holdfastv1.ListRunsRequest{Filter: "phase = PENDING OR phase = RUNNING"})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range list.GetRuns() {
		ids = append(ids, r.GetRunId())
	}
	return ids
}

package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// TestStopWhileAPeerHangs checks that a hanging follower, whose connections stay open, delays
// neither writes nor a graceful stop of the others for long.
func TestStopWhileAPeerHangs(t *testing.T) {
	long(t)
	t.Parallel()
	c := bench.Cluster(t, harness.Options{})
	w := c.Write("m-written")
	leader, hung := c.TheLeader(), c.Followers()[0]
	if err := hung.Pause(); err != nil {
		t.Fatal(err)
	}
	c.Register("m-while-it-hangs")
	ctx, stop := context.WithTimeout(t.Context(), harness.Patience)
	defer stop()
	began := time.Now()
	if err := leader.Stop(ctx); err != nil {
		t.Errorf("stop the leader (%s): %v\n%s", time.Since(began), err, leader.LogTail(500))
	}
	took := time.Since(began)
	t.Logf("the leader stopped in %s", took.Round(time.Millisecond))
	if took > 20*time.Second { // some calls to the hanging peer time out
		t.Errorf("the stop took %s, want at most 20s", took)
	}
	if err := hung.Resume(); err != nil {
		t.Fatal(err)
	}
	c.Register("m-afterwards")
	_, longest := w.Stop()
	t.Logf("at most %s without an acknowledged write", longest.Round(time.Millisecond))
	c.Restart(leader)
}

// TestFollowerResumesAfterItsLeaderDied resumes a stopped follower, which then receives the last
// messages of its leader, possibly of a term that is new to it. If the leader has died meanwhile,
// the follower and the third peer must still elect a leader. The follower's log is behind, so only
// the third peer can win, and it needs the follower's vote.
func TestFollowerResumesAfterItsLeaderDied(t *testing.T) {
	long(t)
	t.Parallel()
	c := bench.Cluster(t, harness.Options{})
	var longest time.Duration
	for round := range 8 {
		leader, others := c.TheLeader(), c.Followers()
		behind, third := others[round%2], others[1-round%2]
		if err := behind.Pause(); err != nil {
			t.Fatal(err)
		}
		// The leader briefly loses its majority. Then it leads in a new term, or the third peer
		// leads.
		if err := third.Pause(); err != nil {
			t.Fatal(err)
		}
		harness.Until(t, "the leader to step down", func() (bool, any) {
			r, err := leader.Readiness(t.Context())
			return err == nil && r.Role != "leader", r
		})
		if err := third.Resume(); err != nil {
			t.Fatal(err)
		}
		w := c.Dial(leader.GRPCAddr, third.GRPCAddr)
		for n := range 20 { // writes that the paused peer does not receive
			registerAt(t, w, fmt.Sprintf("m-%d-%d", round, n))
		}
		leader = c.TheLeader()
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		if err := behind.Resume(); err != nil {
			t.Fatal(err)
		}
		registerAt(t, c.Client, fmt.Sprintf("m-%d-after", round))
		took := time.Since(killed)
		longest = max(longest, took)
		t.Logf("round %d: a write was acknowledged %s after the leader was killed", round, took.Round(time.Millisecond))
		c.Restart(leader)
	}
	if longest > 30*time.Second { // without an election, a write waits for a minute
		t.Errorf("got %s without an acknowledged write, with two of three peers up", longest)
	}
}

func registerAt(t *testing.T, cl *client.Client, id string) {
	t.Helper()
	if _, err := cl.Machines().RegisterMachine(t.Context(),
		&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: id}}); err != nil {
		t.Fatalf("register machine %s: %v", id, err)
	}
}

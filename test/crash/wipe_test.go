package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// TestWipedPeerAndColdStart checks that a peer that lost its disk joins and votes again, so that
// another one may fail, and that three peers that die at once lose no acknowledged write.
func TestWipedPeerAndColdStart(t *testing.T) {
	long(t)
	t.Parallel()
	c := bench.Cluster(t, harness.Options{})
	c.Plan("work", step("talk", &holdfastv1.SshCommand{Script: bystanderScript}),
		step("restart", &holdfastv1.Reboot{Mode: "bmc"}))
	w := c.Write("m-written")
	runs := someRuns(c, "before")

	victim := c.Followers()[0]
	wipe(t, c, victim)
	t.Run("death of another peer", func(t *testing.T) {
		c := c.In(t)
		leader := c.TheLeader()
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		c.Register("m-with-the-wiped-peer") // needs the vote of the wiped peer
		c.Restart(leader)
	})
	t.Run("wiped leader", func(t *testing.T) {
		c := c.In(t)
		wipe(t, c, c.TheLeader())
	})

	runs = append(runs, someRuns(c, "after")...)
	harness.Until(t, "runs in flight", func() (bool, any) {
		n := len(c.Effects("", runs[len(runs)-1]))
		return n > 0, n
	})
	acked, _ := w.Stop()
	for _, p := range c.Peers() {
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range c.Peers() {
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.Ready()
	m, err := c.Client.Machines().GetMachine(t.Context(), &holdfastv1.GetMachineRequest{MachineId: "m-written"})
	if err != nil {
		t.Fatal(err)
	}
	// A write in flight when the writer stopped may have been applied.
	if got := m.GetLabels()["n"]; got != fmt.Sprint(acked) && got != fmt.Sprint(acked+1) {
		t.Errorf("last write after the cold start: got %s, want %d or one more", got, acked)
	}
	for _, id := range runs {
		run := c.Ended(id)
		c.CheckRun(run)
		checkOutput(t, c.Log(id, "stdout"), bystanderScript)
	}
	sameEverywhere(t, c)
}

func someRuns(c *harness.Cluster, name string) []string {
	var ids []string
	for i := range 4 {
		machine := fmt.Sprintf("m-%s-%d", name, i)
		c.Register(machine)
		ids = append(ids, c.Start(machine, "work").GetRunId())
	}
	return ids
}

// wipe kills a peer, deletes its data, and waits until it votes again with the data of the others.
func wipe(t *testing.T, c *harness.Cluster, p *localcluster.Peer) {
	t.Helper()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Register("m-while-" + p.ID + "-is-away") // the peer must receive this before it may vote
	if err := p.Wipe(); err != nil {
		t.Fatal(err)
	}
	c.Restart(p)
	harness.Until(t, "the wiped peer to be admitted", func() (bool, any) {
		// The status shows the configuration, in which it remained a voter.
		b, err := os.ReadFile(filepath.Join(p.DataDir, "identity.json"))
		var identity struct{ Admitted bool }
		return err == nil && json.Unmarshal(b, &identity) == nil && identity.Admitted, string(b)
	})
	conn := c.Conn(c.TheLeader())
	harness.Until(t, "the status to show the peer", func() (bool, any) {
		st, err := holdfastv1.NewClusterServiceClient(conn).GetClusterStatus(t.Context(),
			&holdfastv1.GetClusterStatusRequest{})
		if err != nil {
			return false, err
		}
		for _, peer := range st.GetPeers() {
			if peer.GetId() == p.ID {
				return peer.GetSuffrage() == "voter" && peer.GetAlive() && st.GetFailureTolerance() == 1, st
			}
		}
		return false, st
	})
}

// sameEverywhere compares the machines and runs at all peers.
func sameEverywhere(t *testing.T, c *harness.Cluster) {
	t.Helper()
	type state struct {
		Machines []*holdfastv1.Machine
		Runs     []*holdfastv1.Run
	}
	var first *state
	ctx, stop := context.WithTimeout(t.Context(), harness.Patience)
	defer stop()
	for _, p := range c.Peers() {
		cl := c.Dial(p.GRPCAddr)
		machines, err := cl.Machines().ListMachines(ctx, &holdfastv1.ListMachinesRequest{PageSize: 1000})
		if err != nil {
			t.Fatalf("list machines at %s: %v", p.ID, err)
		}
		// Both lists are of one state: runs have ended, and there are no writes.
		runs, err := cl.Runs().ListRuns(client.WithConsistency(ctx, client.Consistency{Stale: true}),
			&holdfastv1.ListRunsRequest{PageSize: 1000})
		if err != nil {
			t.Fatalf("list runs at %s: %v", p.ID, err)
		}
		got := &state{machines.GetMachines(), runs.GetRuns()}
		if first == nil {
			first = got
		}
		// Polls continue, so the time of an observation may differ, and with it the revision.
		ignore := []cmp.Option{protocmp.Transform(), protocmp.IgnoreFields(&holdfastv1.Machine{}, "revision", "updated_at"),
			protocmp.IgnoreFields(&holdfastv1.Condition{}, "observed_at", "last_transition", "status", "reason", "message",
				"unknown", "unknown_since", "fresh_until"),
			protocmp.IgnoreFields(&holdfastv1.MachineStatus{}, "effective_state", "banners", "conditions", "power",
				"power_observed_at", "needs_attention", "issues"),
			protocmp.IgnoreFields(&holdfastv1.Run{}, "log_compacted", "revision")}
		if diff := cmp.Diff(first, got, ignore...); diff != "" {
			t.Errorf("machines and runs of %s and %s differ:\n%s", c.Peers()[0].ID, p.ID, diff)
		}
	}
}

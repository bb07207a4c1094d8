package crash

import (
	"fmt"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// TestConditionsSurviveLeaderCrash checks the conditions of a fleet in a process of its own. A
// fault is shown, call budgets hold over a failover, and conditions become unknown when the fleet's
// API is gone.
func TestConditionsSurviveLeaderCrash(t *testing.T) {
	t.Parallel()
	const machines, budget = 40, 60
	c := bench.Cluster(t, harness.Options{
		FleetConfig: "machines: {m-00: {broken: {DiskFailed: disk 2 failed}}}\n",
		Args: []string{"--reconcile-interval-seconds=3", "--health-interval-seconds=6",
			fmt.Sprint("--poll-calls-per-second=", budget)},
	})
	var ids []string
	for i := range machines {
		ids = append(ids, fmt.Sprintf("m-%02d", i))
	}
	began := time.Now()
	c.Register(ids...)
	found := func(filter string) int {
		r, err := c.Client.Machines().ListMachines(t.Context(), &holdfastv1.ListMachinesRequest{Filter: filter,
			PageSize: 1000})
		if err != nil {
			t.Fatalf("list machines %s: %v", filter, err)
		}
		return len(r.GetMachines())
	}
	until := func(filter string, want int) {
		t.Helper()
		harness.Until(t, fmt.Sprintf("%d machines with %s", want, filter), func() (bool, any) {
			n := found(filter)
			return n == want, n
		})
	}
	until("conditions.Reachable = true AND conditions.BMCReachable = true AND conditions.InCustomerCluster = false",
		machines)
	until("conditions.Degraded = false", machines-1)
	until("conditions.Degraded = true", 1)
	m, err := c.Client.Machines().GetMachine(t.Context(), &holdfastv1.GetMachineRequest{MachineId: "m-00"})
	if err != nil {
		t.Fatal(err)
	}
	if want := "Degraded: DiskFailed: disk 2 failed"; len(m.GetStatus().GetBanners()) != 1 ||
		m.GetStatus().GetBanners()[0] != want {
		t.Errorf("banners: got %q, want %q", m.GetStatus().GetBanners(), want)
	}

	leader := c.TheLeader()
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	seen := func() (calls, fewest int) {
		fewest = -1
		for _, id := range ids {
			n := c.Hardware(id).Calls
			calls += n["inspect"] + n["node_status"] + n["health"]
			if fewest < 0 || n["inspect"] < fewest {
				fewest = n["inspect"]
			}
		}
		return calls, fewest
	}
	_, before := seen()
	c.TheLeader()
	harness.Until(t, "the next leader to poll every machine", func() (bool, any) {
		_, n := seen()
		return n >= before+2, n
	})
	calls, _ := seen()
	// Each leader's first call is one more than the budget allows.
	if most := int(time.Since(began).Seconds()*budget) + 2; calls > most {
		t.Errorf("got %d calls in %v, want at most %d", calls, time.Since(began), most)
	}

	if err := c.Fake.Close(); err != nil {
		t.Fatal(err)
	}
	c.Fake = nil // it is closed
	until("conditions.Reachable = unknown AND conditions.BMCReachable = unknown AND conditions.Degraded = unknown",
		machines)
	if n := found("conditions.Reachable = true OR conditions.Reachable = false"); n != 0 {
		t.Errorf("got %d machines with a known reachability, want 0", n)
	}
}

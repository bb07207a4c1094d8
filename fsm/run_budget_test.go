//go:build !rowguard

package fsm_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/guard"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The guard of rows allocates too, so these budgets are not checked in builds with it.

// TestGuardRun limits the allocations and the log bytes of each command of a run.
func TestGuardRun(t *testing.T) {
	const runs = 21 // one to warm up
	p := registered(runs)
	prepareRuns(p)
	var all [][]namedEntry
	for i := range runs {
		all = append(all, runEntries(p, i))
	}
	allocs, bytes := 0.0, 0
	for k, e := range all[0] {
		i := 0
		got := testing.AllocsPerRun(runs-1, func() {
			applyEntry(t, p, all[i][k].data)
			i++
		})
		guard.Check(t, "apply."+e.name+".allocs", got)
		guard.Check(t, "log."+e.name+".bytes", float64(len(e.data)))
		allocs, bytes = allocs+got, bytes+len(e.data)
	}
	guard.Check(t, "apply.run.allocs", allocs)
	guard.Check(t, "log.run.bytes", float64(bytes))
	if run, ok := p.View().Run("run-000000"); !ok || run.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Errorf("got %v, want a run that has succeeded", run)
	}
}

// TestGuardCheckpoint limits what a heartbeat costs in an entry of many.
func TestGuardCheckpoint(t *testing.T) {
	const machines = 256
	p := registered(machines)
	p.Do(&internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "gpu"}})
	clock := int64(0)
	checkpoint := func() []byte {
		clock += 60_000
		c := &internalv1.CheckpointLeases{ClockMs: clock}
		for i := range machines {
			c.Leases = append(c.Leases, &internalv1.SeenLease{SeenMs: clock - int64(i), AgeMs: int64(i),
				Renewal: &internalv1.Renewal{Lease: ref(ofMachine, fmt.Sprintf("m-%d", i), 0), AgentVersion: "0.1.0-python",
					PoolName: "gpu", ProviderName: "generic", Metrics: &holdfastv1.AgentMetrics{CpuUtilizationPct: 15.5,
						MemoryUtilizationPct: 42.3, TotalCpuAvailable: 8000, TotalMemoryAvailable: 16384, FreeGpuCount: 1}}})
		}
		return entryOf(p, c, nil)
	}
	applyEntry(t, p, checkpoint()) // it makes the machines ready
	var entries [][]byte
	for range 6 {
		entries = append(entries, checkpoint())
	}
	size := len(entries[0])
	got := testing.AllocsPerRun(len(entries)-1, func() {
		applyEntry(t, p, entries[0])
		entries = entries[1:]
	})
	guard.Check(t, "apply.heartbeat.allocs", got/machines)
	guard.Check(t, "log.heartbeat.bytes", float64(size)/machines)
}

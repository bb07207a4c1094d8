package fsm_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// BenchmarkCheckpointLeases records heartbeats of ready machines with metrics: entries of
// 4,096, as the engine makes them, and one of 10,000.
func BenchmarkCheckpointLeases(b *testing.B) {
	const machines = 100_000
	p := fleet(b, machines)
	p.Do(&internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "gpu"}})
	checkpoint := func(from, n int, clock int64) []byte {
		c := &internalv1.CheckpointLeases{ClockMs: clock}
		for i := from; i < from+n; i++ {
			c.Leases = append(c.Leases, &internalv1.SeenLease{AgeMs: int64(i % 20_000), SeenMs: clock - int64(i%20_000),
				Renewal: &internalv1.Renewal{
					Lease:        ref(ofMachine, fmt.Sprintf("m-%d", i%machines), 0),
					AgentVersion: "0.1.0-python", PoolName: "gpu", ProviderName: "generic",
					Metrics: &holdfastv1.AgentMetrics{CpuUtilizationPct: 15.5, MemoryUtilizationPct: 42.3, TotalCpuAvailable: 8000,
						TotalMemoryAvailable: 16384, FreeGpuCount: 1}}})
		}
		cmd := fsmtest.Command(c)
		cmd.FeatureLevel, cmd.Time, cmd.Epoch = fsm.FeatureLevel, timestamppb.New(p.Now), p.Term
		return fsmtest.Encode(cmd)
	}
	for i := 0; i < machines; i += 10_000 { // the first ones make the machines ready
		p.Index++
		if r := p.Apply(p.Index, p.Term, checkpoint(i, 10_000, 30_000))[0]; r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	for _, n := range []int{4096, 10_000} {
		b.Run(fmt.Sprintf("leases=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			at := 0
			for b.Loop() {
				b.StopTimer()
				entry := checkpoint(at, n, 60_000+int64(at))
				at += n
				p.Index++
				b.StartTimer()
				if r := p.Apply(p.Index, p.Term, entry)[0]; r.Err != nil {
					b.Fatal(r.Err)
				}
				b.StopTimer()
				b.ReportMetric(float64(len(entry)), "B/entry")
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/lease")
		})
	}
}

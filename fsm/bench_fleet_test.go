package fsm_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
)

// BenchmarkFleet measures the memory of a machine, and the cost of queries for fleets of
// growing size. Only the memory may grow.
func BenchmarkFleet(b *testing.B) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, size := range []int{10_000, 50_000} {
		before := heap()
		p := fleet(b, size)
		perMachine := float64(heap()-before) / float64(size)
		ask := func(name string, do func(v *fsm.View, i int)) {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					do(p.View(), i)
				}
				b.ReportMetric(perMachine, "heap-B/machine")
			})
		}
		ask("count", func(v *fsm.View, _ int) { v.CountStates() })
		ask("get", func(v *fsm.View, i int) { v.Machine(fmt.Sprintf("m-%d", i%size)) })
		for name, f := range map[string]fsm.Facets{"page": {Path: "labels.rack", Value: "r7"},
			"none": {Path: "labels.rack", Value: "none"}} {
			ask(name, func(v *fsm.View, _ int) {
				n := 0
				for range v.FindMachines(fsm.Query{Facets: &f}, "") {
					if n++; n == 100 {
						break
					}
				}
			})
		}
		runtime.KeepAlive(p)
	}
}

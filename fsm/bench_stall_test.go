package fsm_test

import (
	"io"
	"runtime"
	"slices"
	"testing"
	"time"
)

// BenchmarkStall measures how long other goroutines wait while snapshots are written on all
// processors. A response to another peer is one example.
func BenchmarkStall(b *testing.B) {
	p := fleet(b, 20_000)
	s, err := p.Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	busy := runtime.GOMAXPROCS(0)
	for range busy {
		go func() {
			for {
				select {
				case <-stop:
					done <- struct{}{}
					return
				default:
					_, _ = s.WriteTo(io.Discard)
				}
			}
		}()
	}
	var all []time.Duration
	for b.Loop() {
		began := time.Now()
		time.Sleep(time.Millisecond) // sleep: how late it ends is what is measured
		all = append(all, time.Since(began)-time.Millisecond)
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "µs-p50")
	b.ReportMetric(float64(all[len(all)-1].Microseconds()), "µs-longest")
	close(stop)
	for range busy {
		<-done
	}
}

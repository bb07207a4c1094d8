package server

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/fleet"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// BenchmarkListMachines measures pages of 100 in fleets of different sizes. The cost of a
// filter must not grow with the fleet if an index or the text of a record can decide it.
func BenchmarkListMachines(b *testing.B) {
	for _, size := range []int{10_000, 100_000} {
		n := nodetest.New()
		for i := range size {
			n.Do(b, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: fmt.Sprintf("m-%06d", i),
				Labels: map[string]string{"env": "prod"},
				Spec:   &holdfastv1.MachineSpec{Rack: fmt.Sprintf("r%d", i%20), Serial: fmt.Sprintf("S%08d", i)}}})
		}
		s := fleet.NewMachines(New(Config{}, n, n.Peer, testProviders()).peer, testProviders())
		for _, tt := range []struct {
			name, filter string
			want         int
		}{
			{"rack", "rack = r7", 100},
			{"none", "labels.env = none", 0},
			{"both", "labels.env = prod AND phase = RMA", 0},
			{"wildcard", "serial = *none*", 0},
			{"scan", "revision < 1", 0},
		} {
			b.Run(fmt.Sprintf("%s/%d", tt.name, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					r, err := s.ListMachines(context.Background(), &holdfastv1.ListMachinesRequest{Filter: tt.filter})
					if err != nil || len(r.GetMachines()) != tt.want {
						b.Fatalf("got %d machines, %v", len(r.GetMachines()), err)
					}
				}
			})
		}
	}
}

// BenchmarkScrape measures a scrape of the metrics with 10,000 runs in flight.
func BenchmarkScrape(b *testing.B) {
	n := nodetest.New()
	for i := range 10_000 {
		id := fmt.Sprintf("m-%05d", i)
		n.Machine(b, id)
		n.Start(b, id, "run-"+id, "plan/reboot")
	}
	h := New(Config{}, n, n.Peer, testProviders()).HTTPHandler()
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/metrics", nil))
		if _, err := io.Copy(io.Discard, w.Body); err != nil || w.Code != 200 {
			b.Fatal(w.Code, err)
		}
	}
}

// BenchmarkStartRun measures the cost of StartRun on the peer, without consensus.
func BenchmarkStartRun(b *testing.B) {
	n := nodetest.New()
	n.Machine(b, "m-1")
	s := New(Config{}, n, n.Peer, testProviders()).runs
	for i := 0; b.Loop(); i++ {
		run, err := s.StartRun(context.Background(), &holdfastv1.StartRunRequest{RequestId: fmt.Sprint(i), MachineId: "m-1",
			Type: "REBOOT"})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		n.Do(b, &internalv1.CancelRun{RunId: run.GetRunId()})
		b.StartTimer()
	}
}

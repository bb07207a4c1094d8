package fsm_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// fleet returns a peer with n machines of ordinary size, m-0 to m-<n-1>.
func fleet(b *testing.B, n int) *fsmtest.Peer {
	b.Helper()
	p := fsmtest.NewPeer()
	for i := 0; i < n; {
		var cmds []*internalv1.Command
		for ; i < n && len(cmds) < 256; i++ {
			cmds = append(cmds, fsmtest.Command(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{
				MachineId: fmt.Sprintf("m-%d", i),
				Labels:    map[string]string{"env": "prod", "role": "worker", "rack": fmt.Sprintf("r%d", i%40), "provider": "fake"},
				Spec: &holdfastv1.MachineSpec{SshEndpoint: fmt.Sprintf("10.20.%d.%d:22", i>>8&255, i&255),
					BmcEndpoint: fmt.Sprintf("bmc-%d.lan", i),
					MacAddresses: []string{fmt.Sprintf("02:00:%02x:%02x:%02x:00", i>>16&255, i>>8&255, i&255),
						fmt.Sprintf("02:00:%02x:%02x:%02x:01", i>>16&255, i>>8&255, i&255)},
					Serial: fmt.Sprintf("S%08d", i), Location: "ber-1", TargetClusterRef: "cluster-a"},
			}}))
		}
		for _, r := range p.Propose(cmds...) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
	return p
}

// BenchmarkStartRun applies starts of the default repave, each on a machine of its own, in
// entries of 1 and 64. Busy machines are freed by canceling, outside the measurement. With an
// origin, each start is checked against a token and audited.
func BenchmarkStartRun(b *testing.B) {
	for _, batch := range []int{1, 64} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) { benchmarkStartRun(b, batch, nil) })
		b.Run(fmt.Sprintf("batch=%d/audited", batch), func(b *testing.B) {
			benchmarkStartRun(b, batch, &internalv1.Origin{Source: "10.20.30.40:53412", Peer: "p1",
				Method:    "/holdfast.v1.RunService/StartRun",
				RequestId: "0123456789abcdef", TokenId: "t-1", Role: holdfastv1.Role_OPERATOR})
		})
	}
}

func benchmarkStartRun(b *testing.B, batch int, origin *internalv1.Origin) {
	const machines = 1 << 13
	p := fleet(b, machines)
	p.Do(createToken("t-1", holdfastv1.Role_OPERATOR))
	var entry []byte
	runs := 0
	free := func() {
		for i := runs - machines; i < runs; i++ {
			p.Do(&internalv1.CancelRun{RunId: fmt.Sprintf("%08x", i)})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		if runs > 0 && runs%machines == 0 {
			free()
		}
		cmds := make([]*internalv1.Command, batch)
		for i := range cmds {
			c := fsmtest.Command(&internalv1.StartRun{RunId: fmt.Sprintf("%08x", runs),
				MachineId: fmt.Sprintf("m-%d", runs%machines),
				RequestId: fmt.Sprintf("request-%d",
					runs), Type: "REPAVE", CheckedProvider: "fake", DefaultTimeoutSeconds: 600, DefaultMaxRetries: 3})
			c.FeatureLevel, c.Time, c.Principal, c.Origin = fsm.FeatureLevel, timestamppb.New(p.Now), "bench", origin
			cmds[i] = c
			runs++
		}
		entry = fsmtest.Encode(cmds...)
		p.Index++
		b.StartTimer()
		for _, r := range p.Apply(p.Index, p.Term, entry) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/run")
}

// BenchmarkGet reads a machine and a run.
func BenchmarkGet(b *testing.B) {
	p := fleet(b, 10_000)
	p.Do(&internalv1.StartRun{RunId: "run-1", MachineId: "m-77", RequestId: "r", Type: "REPAVE", CheckedProvider: "fake"})
	b.Run("machine", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, ok := p.View().Machine(fmt.Sprintf("m-%d", i%10_000)); !ok {
				b.Fatal("not found")
			}
		}
	})
	b.Run("run", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := p.View().Run("run-1"); !ok {
				b.Fatal("not found")
			}
		}
	})
}

// BenchmarkFullAudit writes and restores a snapshot with the maximum number of audit events,
// and reports the memory per event.
func BenchmarkFullAudit(b *testing.B) {
	const events = 1 << 18
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	p := overflowing(b, events)
	perEvent := float64(heap()-before) / events
	s, err := p.Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			n, err := s.WriteTo(io.Discard)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(n)
		}
		b.ReportMetric(perEvent, "heap-B/event")
	})
	b.Run("restore", func(b *testing.B) {
		snapshot, err := fsmtest.Bytes(p.FSM)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := fsm.New().Restore(bytes.NewReader(snapshot)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

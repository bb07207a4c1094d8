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

// BenchmarkDeliveries registers machines in entries of 64 commands, without and with remembered
// outcomes, once the memory of outcomes is full.
func BenchmarkDeliveries(b *testing.B) {
	for _, remembered := range []bool{false, true} {
		b.Run(fmt.Sprintf("remembered=%t", remembered), func(b *testing.B) {
			p, n := fsmtest.NewPeer(), 0
			entry := func() []byte {
				p.Index++
				cmds := make([]*internalv1.Command, 64)
				for i := range cmds {
					n++
					cmds[i] = fsmtest.Command(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{
						MachineId: fmt.Sprintf("m-%d", n), Labels: map[string]string{"rack": "r7"},
						Spec: &holdfastv1.MachineSpec{Provider: "bmc", BmcEndpoint: fmt.Sprintf("https://10.0.%d.%d", n/250, n%250)}}})
					cmds[i].FeatureLevel, cmds[i].Time, cmds[i].Principal = fsm.FeatureLevel, timestamppb.New(p.Now), "bench"
					if remembered {
						cmds[i].Delivery = &internalv1.Delivery{Id: fmt.Sprintf("%032x/register_machine/0", n), Since: p.Index}
					}
				}
				return fsmtest.Encode(cmds...)
			}
			apply := func(e []byte) {
				for _, r := range p.Apply(p.Index, p.Term, e) {
					if r.Err != nil {
						b.Fatal(r.Err)
					}
				}
			}
			for range 40_000 / 64 {
				apply(entry())
			}
			b.ReportAllocs()
			bytes := 0
			for b.Loop() {
				b.StopTimer()
				e := entry()
				bytes += len(e)
				b.StartTimer()
				apply(e)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*64), "ns/command")
			b.ReportMetric(float64(bytes)/float64(b.N*64), "logB/command")
		})
	}
}

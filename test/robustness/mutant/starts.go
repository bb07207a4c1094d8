package mutant

import (
	"context"
	"fmt"
	"sync"

	"github.com/holdfast-metal/holdfast/test/lab"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// replay requests an ended run again, at each peer.
func replay() Scenario {
	return Scenario{Name: "a start is replayed after its run has ended",
		Run: func(ctx context.Context, e Env) ([]error, error) {
			b, err := e.open(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { _ = b.close() }()
			run, err := b.run(ctx, "quick", lab.Script("s", "true\n"))
			if err != nil {
				return nil, err
			}
			if err := b.over(ctx, run); err != nil {
				return nil, err
			}
			for peer := range b.Peers() {
				op := b.rec.StartRun(ctx, workload.Op{Peer: peer, Machine: machineID, Request: "q-quick", Plan: "quick"},
					callTime)
				if op.Outcome == workload.OK {
					if err := b.over(ctx, op.Got.ID); err != nil {
						return nil, err
					}
				}
			}
			return b.truth(ctx, machineID)
		}}
}

// burst starts runs on one machine from many clients at once, with different request ids.
func burst() Scenario {
	return Scenario{Name: "many start a run on one machine at once",
		Run: func(ctx context.Context, e Env) ([]error, error) {
			b, err := e.open(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { _ = b.close() }()
			if err := b.Plan(ctx, "wait", lab.Script("s", "sleep 1\n")); err != nil {
				return nil, err
			}
			var machines []string
			for n := range 8 {
				machine := fmt.Sprintf("m-burst-%d", n)
				if err := b.Register(ctx, machine); err != nil {
					return nil, err
				}
				machines = append(machines, machine)
				var wg sync.WaitGroup
				for c := range 24 {
					wg.Go(func() {
						b.rec.StartRun(ctx, workload.Op{Client: c, Peer: c % len(b.Peers()), Machine: machine,
							Request: fmt.Sprintf("c%d", c), Plan: "wait"}, callTime)
					})
				}
				wg.Wait()
				b.rec.GetMachine(ctx, workload.Op{Machine: machine}, callTime)
			}
			for _, op := range b.rec.Ops() {
				if op.Got != nil {
					if err := b.over(ctx, op.Got.ID); err != nil {
						return nil, err
					}
				}
			}
			return b.truth(ctx, machines...)
		}}
}

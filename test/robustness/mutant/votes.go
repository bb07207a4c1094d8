package mutant

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-metal/holdfast/test/lab"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// wipedVoter makes two peers acknowledge a write, wipes one of them, and stops the other.
// The two remaining peers must not elect a leader without the write.
func wipedVoter() Scenario {
	return Scenario{Name: "a wiped peer and one that lags are left alone",
		Run: func(ctx context.Context, e Env) ([]error, error) {
			b, err := e.open(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { _ = b.close() }()
			b.stop() // only this scenario starts peers
			at, err := b.mustWrite(ctx, "first")
			if err != nil {
				return nil, err
			}
			peers := b.Peers()
			leader, wiped, lagging := peers[at], peers[(at+1)%3], peers[(at+2)%3]
			if err := lagging.Kill(); err != nil {
				return nil, err
			}
			for _, value := range []string{"second", "third"} {
				if op := b.write(ctx, at, machineID, value); op.Outcome != workload.OK {
					return nil, errors.New("write while one peer is down: " + op.Code + " " + op.Message)
				}
			}
			if err := errors.Join(leader.Kill(), wiped.Kill(), wiped.Wipe(), wiped.Start(ctx), lagging.Start(ctx)); err != nil {
				return nil, err
			}
			// With a multiplier of 0.3, an election takes half a second.
			alone, cancel := context.WithTimeout(ctx, 6*time.Second)
			defer cancel()
			_ = lab.Until(alone, "a write", func() bool {
				return b.rec.UpdateMachine(alone, workload.Op{Peer: b.index(lagging.ID), Machine: machineID,
					Value: time.Now().String()}, time.Second).Outcome == workload.OK
			})
			if err := leader.Start(ctx); err != nil {
				return nil, err
			}
			return b.truth(ctx, machineID)
		}}
}

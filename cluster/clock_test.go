package cluster_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestCommandsCarryTheMonotonicClock checks every command of a leader, even one with its own wall
// clock, such as an audit event or the bootstrap token. Otherwise one wrong clock would change the
// recorded time.
func TestCommandsCarryTheMonotonicClock(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Peers: 1})
	p := c.Leader()
	ahead := timestamppb.New(time.Now().Add(365 * 24 * time.Hour))
	for _, at := range []*timestamppb.Timestamp{nil, ahead, nil} {
		if _, err := p.Node.Apply(t.Context(), &internalv1.Command{FeatureLevel: fsm.Level1, Time: at,
			Op: &internalv1.Command_NoOp{NoOp: &internalv1.NoOp{}}}); err != nil {
			t.Fatal(err)
		}
		if off := time.Until(p.FSM.View().Now()).Abs(); off > time.Minute {
			t.Errorf("recorded clock after a command of %v: got an offset of %s", at.AsTime(), off)
		}
	}
}

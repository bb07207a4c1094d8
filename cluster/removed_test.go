package cluster_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// A leader that dies between taking a server out of Raft and out of the record leaves a record of nobody. Whoever leads removes it,
// and keeps those of servers.
func TestRecordOfRemovedServerGoesAway(t *testing.T) {
	c := clustertest.Start(t, clustertest.Options{})
	settled(t, c, 3)
	leader := c.Leader()
	if _, err := leader.Node.Apply(t.Context(), &internalv1.Command{FeatureLevel: 1, Op: &internalv1.Command_PutPeer{
		PutPeer: &internalv1.PutPeer{Peer: &internalv1.PeerRecord{Id: "p-gone", Instance: "i", MaxFeatureLevel: fsm.FeatureLevel}}}}); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, 20*time.Second, "the record is removed", func() error {
		if _, ok := leader.FSM.View().Peer("p-gone"); ok {
			return errors.New("it is still there")
		}
		return nil
	})
	if n := len(leader.FSM.View().Peers()); n != 3 {
		t.Errorf("%d peers are on record, want 3", n)
	}
}

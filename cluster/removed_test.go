package cluster_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// A leader that dies between removing a server from Raft and deleting its record leaves an orphaned
// record. The next leader deletes it, and keeps the records of servers.
func TestOrphanedRecordIsDeleted(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{})
	settled(t, c, 3)
	leader := c.Leader()
	if _, err := leader.Node.Apply(t.Context(), &internalv1.Command{FeatureLevel: 1, Op: &internalv1.Command_PutPeer{
		PutPeer: &internalv1.PutPeer{Peer: &internalv1.PeerRecord{Id: "p-gone", Instance: "i",
			MaxFeatureLevel: fsm.FeatureLevel}}}}); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, 20*time.Second, "the deletion of the record", func() error {
		if _, ok := leader.FSM.View().Peer("p-gone"); ok {
			return errors.New("record exists")
		}
		return nil
	})
	if n := len(leader.FSM.View().Peers()); n != 3 {
		t.Errorf("got %d peer records, want 3", n)
	}
}

// A peer that is dead when it is removed, and returns with its data, joins like any other. The
// leader that removed it must not mistake it for one that has left and will stop. Found by the
// failpoint "server-removed".
func TestRemovedPeerRejoins(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{OnDisk: true})
	settled(t, c, 3)
	leader := c.Leader()
	dead := c.Followers(leader)[0]
	c.Kill(dead)
	clustertest.Eventually(t, 20*time.Second, "gossip to consider the peer dead", func() error {
		for _, p := range leader.Node.Status(t.Context()).GetPeers() {
			if p.GetId() == dead.ID && p.GetAlive() {
				return errors.New("still alive")
			}
		}
		return nil
	})
	if err := leader.Node.RemovePeer(t.Context(), dead.ID, false); err != nil {
		t.Fatal(err)
	}
	c.Restart(dead)
	clustertest.Eventually(t, 20*time.Second, "the peer to vote again", func() error {
		if s := suffrage(t, leader, dead); s != "voter" {
			return errors.New("suffrage is " + s)
		}
		return nil
	})
}

// A peer that leaves, dies before gossip notices, and starts again with its data is another
// process, so it joins like any other. Otherwise it would wait for its cluster forever. Found by
// the failpoint "server-removed".
func TestLeftPeerRejoinsAfterRestart(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{OnDisk: true})
	settled(t, c, 3)
	leader := c.Leader()
	dead := c.Followers(leader)[0]
	c.Kill(dead)
	if err := leader.Node.RemoveLeaving(t.Context(), dead.ID); err != nil {
		t.Fatal(err)
	}
	c.Restart(dead)
	clustertest.Eventually(t, 20*time.Second, "the peer to vote again", func() error {
		if s := suffrage(t, leader, dead); s != "voter" {
			return errors.New("suffrage is " + s)
		}
		return nil
	})
}

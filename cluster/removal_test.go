package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// hangsAfter is a log that hangs after storing a configuration change while it is armed.
type hangsAfter struct {
	hanging
	armed *atomic.Bool
}

func (h hangsAfter) StoreLogs(logs []*raft.Log) error {
	err := h.hanging.StoreLogs(logs)
	if h.armed.Load() && slices.ContainsFunc(logs, func(l *raft.Log) bool { return l.Type == raft.LogConfiguration }) {
		h.hang.Store(true)
	}
	return err
}

// TestOutcomeOfRemoval checks that a removal that may still be committed is not reported as
// NOT_APPLIED. A committed removal succeeds even if the peer's record could not be deleted in time.
func TestOutcomeOfRemoval(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		removed bool // the configuration is committed before the disk hangs
		want    outcome.Kind
	}{
		{"not committed in time", false, outcome.Unknown},
		{"committed without the record", true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var hang, armed [3]atomic.Bool
			free := make(chan struct{})
			c := clustertest.Start(t, clustertest.Options{Configure: func(i int, c *cluster.Config) {
				calm(i, c)
				c.WrapLogs(func(l raft.LogStore) raft.LogStore { return hangsAfter{hanging{l, &hang[i], free}, &armed[i]} })
			}})
			release := func() {
				for i := range c.Peers {
					armed[i].Store(false)
					hang[i].Store(false)
				}
				close(free)
			}
			freed := false
			t.Cleanup(func() {
				if !freed {
					release()
				}
			})
			settled(t, c, 3)
			leader := c.Leader()
			dead, other := c.Followers(leader)[0], c.Followers(leader)[1]
			c.Kill(dead)
			i := slices.Index(c.Peers, other)
			armed[i].Store(tt.removed)
			hang[i].Store(!tt.removed)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			err := leader.Node.RemovePeer(ctx, dead.ID, false)
			var got outcome.Kind
			if o, ok := errors.AsType[*outcome.Error](err); ok {
				got = o.Outcome
			} else if err != nil {
				t.Errorf("got %v, want no error or an outcome", err)
			}
			if got != tt.want {
				t.Errorf("remove a dead peer: got %v (%v), want %v", got, err, tt.want)
			}
			if tt.removed && !hang[i].Load() {
				t.Error("the log did not hang: nothing was tested")
			}
			release()
			freed = true
			clustertest.Eventually(t, 20*time.Second, "the removal of the peer and its record", func() error {
				if _, ok := leader.FSM.View().Peer(dead.ID); ok {
					return errors.New("record exists")
				}
				if s := suffrage(t, leader, dead); s != "none" {
					return errors.New("suffrage is " + s)
				}
				return nil
			})
		})
	}
}

// A leader that dies after it has denied a peer, and before it has removed it from Raft's
// configuration, leaves the removal to the next one.
func TestBegunRemovalIsFinished(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Peers: 5, OnDisk: true, TLS: true, Configure: calm})
	settled(t, c, 5)
	leader := c.Leader()
	gone := c.Followers(leader)[0]
	c.Kill(gone)
	// The reconciler of this leader may be faster than its death: the next one then has nothing to
	// do.
	if _, err := leader.Node.Apply(t.Context(), &internalv1.Command{FeatureLevel: 1, Op: &internalv1.Command_RemovePeer{
		RemovePeer: &internalv1.RemovePeer{Id: gone.ID, Begin: true, Denial: &internalv1.PeerAdmission{Id: gone.ID,
			IssuedBefore: timestamppb.Now()}}}}); err != nil {
		t.Fatal(err)
	}
	c.Kill(leader)
	clustertest.Eventually(t, time.Minute, "the removal", func() error {
		next := c.Leader()
		a, _ := next.FSM.View().Admission(gone.ID)
		_, recorded := next.FSM.View().Peer(gone.ID)
		if s := suffrage(t, next, gone); s != "none" || recorded || !a.GetDenied() || a.GetRemoving() {
			return fmt.Errorf("suffrage %s, recorded %t, admission %v", s, recorded, a)
		}
		return nil
	})
}

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

// A peer that is dead when it is removed, and returns with its data, joins like any other once it
// is admitted. The leader that removed it must not mistake it for one that has left and will stop.
// Found by the failpoint "server-removed".
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
	if err := leader.Node.AdmitPeer(t.Context(), dead.ID); err != nil {
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

// A leader that leaves transfers its leadership first. If its successor loses the election, it
// leads again, and must then retry instead of stopping as a member. Found by the fault "membership"
// of test/robustness.
func TestLeaveOfReelectedLeader(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{})
	settled(t, c, 3)
	old := c.Leader()
	if err := old.Node.Leave(t.Context()); err != nil {
		t.Fatalf("leave while leading: %v", err)
	}
	rest := c.Followers(old)
	clustertest.Eventually(t, 20*time.Second, "two members at the other peers", func() error {
		for _, p := range rest {
			if _, ok := p.FSM.View().Peer(old.ID); ok {
				return errors.New(p.ID + " still has its record")
			}
		}
		return nil
	})
}

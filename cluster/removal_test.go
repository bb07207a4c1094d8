package cluster_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
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
		want    cluster.Outcome
	}{
		{"not committed in time", false, cluster.Unknown},
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
			var got cluster.Outcome
			if o, ok := errors.AsType[*cluster.OutcomeError](err); ok {
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

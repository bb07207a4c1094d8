package security

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/server/connlimit"
)

// TestFloodOfPeerPorts holds many silent connections to the ports of Raft and gossip of a leader.
// They are closed, and a peer that starts again follows the leader nevertheless.
func TestFloodOfPeerPorts(t *testing.T) {
	t.Parallel()
	regs := make([]*prometheus.Registry, 3)
	c := clustertest.Start(t, clustertest.Options{TLS: true, OnDisk: true,
		Configure: func(i int, cfg *cluster.Config) {
			regs[i] = prometheus.NewRegistry()
			cfg.LimitPeers = connlimit.New(connlimit.Config{Total: 8, PerAddress: 8, Reserve: 4, Verified: 64,
				Idle: time.Hour, Port: "peers", Registerer: regs[i]}).Listen
		}})
	leader := c.Leader()
	follower := c.Followers(leader)[0]
	apply := func(id string) {
		t.Helper()
		clustertest.Eventually(t, settled, "a command", func() error {
			_, err := c.Leader().Node.Apply(t.Context(), clustertest.Register(id))
			return err
		})
	}
	apply("before")
	c.Kill(follower)
	const flood = 150
	for range flood {
		for _, addr := range []string{leader.Node.RaftAddr(), c.Gossip(leader)} {
			conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}
	clustertest.Eventually(t, settled, "the flood to be closed", func() error {
		closed, open := connections(t, regs[leader.Number()])
		if open > 8 || closed < flood {
			return fmt.Errorf("got %g closed and %g open", closed, open)
		}
		return nil
	})
	c.Restart(follower)
	apply("after")
	clustertest.Eventually(t, settled, "the follower to have the command", func() error {
		if _, ok := follower.FSM.View().Machine("after"); !ok {
			return fmt.Errorf("it is at %d", follower.FSM.Applied())
		}
		return nil
	})
}

// connections returns how many connections a limiter has closed, and how many are open.
func connections(t *testing.T, reg *prometheus.Registry) (closed, open float64) {
	t.Helper()
	found, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "holdfast_connections_closed_total":
				closed += m.GetCounter().GetValue()
			case "holdfast_connections":
				open += m.GetGauge().GetValue()
			}
		}
	}
	return closed, open
}

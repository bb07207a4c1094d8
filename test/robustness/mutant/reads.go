package mutant

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/test/failpoint"
	"github.com/holdfast-metal/holdfast/test/lab"
	"github.com/holdfast-metal/holdfast/test/robustness/check"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// pausedLeader repeatedly stops the leader's process, lets another peer lead and write,
// sends reads to the sockets of the stopped peer, and resumes it. None of the reads may be
// answered with its old state. Before the election, the others acknowledged messages that
// now wait in its sockets, with the reads.
//
// All of that has to happen within the leader's lease, or it notices the pause by its own
// clock. So the other peer stands for election on request, and Raft's messages take a few
// milliseconds in each direction, as between data centers.
func pausedLeader() Scenario {
	return Scenario{Name: "the leader is stopped and resumed", Provoke: []Patch{
		{"cluster/internal/transport/transport.go", "case rpc := <-in:\n", "case rpc := <-in:\n\t\t\tslow()\n"},
		{"cluster/run.go", "do(n.watchLeader)\n", "do(n.watchLeader)\n\tgo n.standOnRequest(bg)\n"},
		{"cluster/stand_generated.go", "", standOnRequest},
		{"cluster/internal/transport/slow_generated.go", "", slowMessages},
		{"cluster/internal/transport/inbox.go",
			"\tb.SetHeartbeatHandler(func(rpc raft.RPC) { g.heartbeat(b, rpc) })\n",
			"\t_ = g.heartbeat // heartbeats take the way of all messages, through slow\n"},
		{"cluster/internal/transport/retry.go",
			"\treturn g.NetworkTransport.AppendEntries(id, addr, req, resp)\n",
			"\terr := g.NetworkTransport.AppendEntries(id, addr, req, resp)\n" +
				"\ttime.Sleep(4 * time.Millisecond)\n\treturn err\n"},
	}, Run: func(ctx context.Context, e Env) ([]error, error) {
		orders := filepath.Join(e.Dir, "stand")
		if err := os.MkdirAll(orders, 0o750); err != nil {
			return nil, err
		}
		b, err := e.openWith(ctx, failpoint.Switches{}, lab.Config{Env: []string{"HOLDFAST_STAND=" + orders}, Slow: true})
		if err != nil {
			return nil, err
		}
		defer func() { _ = b.close() }()
		// With messages this slow, a new leader may lose its leadership on a busy machine.
		// Such a round proves nothing.
		const rounds, mostVoid = 80, 8
		void := 0
		for round := range rounds {
			switch err := b.pauseOnce(ctx, round, orders); {
			case errors.Is(err, errVoid) && void < mostVoid:
				void++
			case err != nil:
				return nil, err
			}
			if found := check.Order(b.rec.History(machineID)); len(found) > 0 {
				return []error{fmt.Errorf("order: %w", found[0])}, nil
			}
		}
		return b.truth(ctx, machineID)
	}}
}

// slowMessages is code for package transport: heartbeats take 20 ms to arrive and 4 ms back, so the
// old leader learns of the new one later.
const slowMessages = `package transport

import (
	"sync/atomic"
	"time"
)

var Leading atomic.Bool

func slow() {
	if Leading.Load() {
		time.Sleep(50 * time.Millisecond)
		return
	}
	time.Sleep(20 * time.Millisecond)
}
`

// standOnRequest is code for package cluster: a peer stands for election when a file of its
// name appears.
const standOnRequest = `package cluster

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/transport"
)

func (n *Peer) standOnRequest(ctx context.Context) {
	file := filepath.Join(os.Getenv("HOLDFAST_STAND"), n.cfg.PeerID)
	for ctx.Err() == nil {
		if os.Remove(file) == nil {
			n.gate.CallElection(time.Second)
		}
		transport.Leading.Store(n.raft.State() == raft.Leader)
		time.Sleep(2 * time.Millisecond)
	}
}
`

// errVoid is the error of a round in which the next leader did not keep its leadership.
var errVoid = errors.New("write at the next leader")

func (b *bench) pauseOnce(ctx context.Context, round int, orders string) error {
	if err := b.Steady(ctx); err != nil {
		return err
	}
	old, err := b.mustWrite(ctx, fmt.Sprintf("before-%d", round))
	if err != nil {
		return err
	}
	busy, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	read := func(client int) {
		b.rec.GetMachine(context.WithoutCancel(ctx), workload.Op{Client: client, Peer: old + 3*(client%lines),
			Machine: machineID}, callTime)
	}
	for c := range 16 {
		wg.Go(func() {
			for busy.Err() == nil {
				read(1 + c)
			}
		})
	}
	if err := wait.Sleep(ctx, 100*time.Millisecond); err != nil {
		return err
	}
	leader, next := b.Peers()[old], b.Peers()[(old+1)%3]
	if err := leader.Pause(); err != nil {
		return err
	}
	// Meanwhile the leader's messages are acknowledged. Its lease is 250 ms.
	if err = wait.Sleep(ctx, 30*time.Millisecond); err == nil {
		err = os.WriteFile(filepath.Join(orders, next.ID), nil, 0o600)
	}
	if err == nil {
		soon, cancel := context.WithTimeout(ctx, 5*time.Second)
		err = lab.Until(soon, next.ID+" to lead", func() bool {
			r, err := next.Readiness(soon)
			return err == nil && r.Ready && r.Role == "leader"
		})
		cancel()
	}
	if err == nil {
		if op := b.write(ctx, (old+1)%3, machineID, fmt.Sprintf("while-%d", round)); op.Outcome != workload.OK {
			err = fmt.Errorf("%w: %s %s", errVoid, op.Code, op.Message)
		}
	}
	if err == nil {
		for c := range 64 {
			wg.Go(func() { read(100 + c) })
		}
		err = wait.Sleep(ctx, 20*time.Millisecond)
	}
	if err := errors.Join(err, leader.Resume()); err != nil {
		return err
	}
	return wait.Sleep(ctx, 100*time.Millisecond)
}

// readAfterWrite writes at the leader and reads at the others right after that.
func readAfterWrite() Scenario {
	return Scenario{Name: "a read follows a write to another peer",
		Run: func(ctx context.Context, e Env) ([]error, error) {
			b, err := e.open(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { _ = b.close() }()
			for n := range 100 {
				at, err := b.mustWrite(ctx, fmt.Sprint(n))
				if err != nil {
					return nil, err
				}
				for i := 1; i < len(b.Peers()); i++ {
					b.rec.GetMachine(ctx, workload.Op{Client: i, Peer: (at + i) % len(b.Peers()), Machine: machineID},
						callTime)
				}
			}
			return b.truth(ctx, machineID)
		}}
}

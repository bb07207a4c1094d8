package transport

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// inTerm returns a gate whose peer is in a term, and the terms of the heartbeats that are handled
// beside Raft's main loop.
func inTerm(t *testing.T, term uint64) (g *Gate, direct <-chan uint64) {
	t.Helper()
	g = testGate(t)
	attach(g, func(l *Local) { l.Term = func() uint64 { return term } })
	handled := make(chan uint64, 1)
	g.SetHeartbeatHandler(func(rpc raft.RPC) {
		handled <- rpc.Command.(*raft.AppendEntriesRequest).Term
		answer(rpc)
	})
	return g, handled
}

// sendTo returns the result of a request, which it sends to a gate.
func sendTo(t *testing.T, to *Gate, req *raft.AppendEntriesRequest) <-chan error {
	t.Helper()
	from, done := testGate(t), make(chan error, 1)
	go func() {
		done <- from.NetworkTransport.AppendEntries("p2", to.LocalAddr(), req, new(raft.AppendEntriesResponse))
	}()
	return done
}

func heartbeat(term uint64) *raft.AppendEntriesRequest {
	return &raft.AppendEntriesRequest{RPCHeader: fromLeader(), Term: term}
}

// TestHeartbeatsOfNewerTerms checks that only the main loop handles a heartbeat that ends a term.
func TestHeartbeatsOfNewerTerms(t *testing.T) {
	there, direct := inTerm(t, 7)
	for _, tt := range []struct {
		term   uint64
		direct bool
	}{{6, true}, {7, true}, {8, false}} {
		done := sendTo(t, there, heartbeat(tt.term))
		select {
		case <-direct:
			if !tt.direct {
				t.Errorf("term %d: got it handled beside the main loop", tt.term)
			}
		case rpc := <-there.Consumer():
			if tt.direct {
				t.Errorf("term %d: got it in the main loop", tt.term)
			}
			answer(rpc)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// TestHeartbeatsOvertakeEntries checks that a leader learns of a newer term while entries of the
// new leader wait for its disk, which may hang.
func TestHeartbeatsOvertakeEntries(t *testing.T) {
	there, _ := inTerm(t, 7)
	slow := newSlowDisk()
	slow.attach(there)
	sendTo(t, there, request(8, 1, 3, 0))
	<-slow.asked
	done := sendTo(t, there, heartbeat(8))
	select {
	case rpc := <-there.Consumer():
		answer(rpc)
	case <-time.After(5 * time.Second):
		t.Fatal("got no heartbeat while entries wait for the disk")
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestHeartbeatsEndWithTheGate checks that a heartbeat waits no longer than the gate if Raft has
// stopped.
func TestHeartbeatsEndWithTheGate(t *testing.T) {
	there, asked, ended := testGate(t), make(chan struct{}), make(chan struct{})
	attach(there, func(l *Local) { l.Term = func() uint64 { close(asked); return 7 } })
	go func() {
		defer close(ended)
		there.passHeartbeat(raft.RPC{Command: heartbeat(8), RespChan: make(chan raft.RPCResponse, 1)}, answer)
	}()
	<-asked
	_ = there.Close()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the heartbeat still waits for Raft")
	}
}

func answer(rpc raft.RPC) {
	rpc.Respond(&raft.AppendEntriesResponse{RPCHeader: header(), Success: true}, nil)
}

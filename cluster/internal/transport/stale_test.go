package transport

import (
	"testing"

	"github.com/hashicorp/raft"
)

// answering starts a gate at addr that grants everything. It delays the first n requests until all
// n have arrived.
func answering(t *testing.T, addr string, n int) *Gate {
	t.Helper()
	s, err := Listen(StreamConfig{Addr: addr, Logger: discard()})
	if err != nil {
		t.Fatal(err)
	}
	g := NewGate(s, Guard{}, noAddrs{}, discard())
	g.admitted.Store(true)
	t.Cleanup(func() { _ = g.Close() })
	go func() { // ends with the gate
		var held []raft.RPC
		for {
			select {
			case rpc := <-g.Consumer():
				if held = append(held, rpc); len(held) < n {
					continue
				}
				for _, rpc := range held {
					switch rpc.Command.(type) {
					case *raft.RequestVoteRequest:
						rpc.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
					case *raft.RequestPreVoteRequest:
						rpc.Respond(&raft.RequestPreVoteResponse{Granted: true}, nil)
					case *raft.AppendEntriesRequest:
						rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
					default:
						rpc.Respond(&raft.TimeoutNowResponse{}, nil)
					}
				}
				held = held[:0]
				n = 1
			case <-g.stop:
				return
			}
		}
	}()
	return g
}

// A call to a restarted peer succeeds although all idle connections to it are closed.
func TestCallsAfterRestart(t *testing.T) {
	for _, tt := range []struct {
		name string
		call func(*Gate, raft.ServerAddress) error
	}{
		{"RequestVote", func(g *Gate, to raft.ServerAddress) error {
			return g.RequestVote("p2", to, &raft.RequestVoteRequest{RPCHeader: header(), Term: 7}, &raft.RequestVoteResponse{})
		}},
		{"RequestPreVote", func(g *Gate, to raft.ServerAddress) error {
			return g.RequestPreVote("p2", to, &raft.RequestPreVoteRequest{RPCHeader: header(), Term: 7},
				&raft.RequestPreVoteResponse{})
		}},
		{"AppendEntries", func(g *Gate, to raft.ServerAddress) error {
			return g.AppendEntries("p2", to, &raft.AppendEntriesRequest{RPCHeader: header(), Term: 7, PrevLogEntry: 1},
				&raft.AppendEntriesResponse{})
		}},
		{"heartbeat", func(g *Gate, to raft.ServerAddress) error {
			return g.AppendEntries("p2", to, &raft.AppendEntriesRequest{RPCHeader: header(), Term: 7},
				&raft.AppendEntriesResponse{})
		}},
		{"TimeoutNow", func(g *Gate, to raft.ServerAddress) error {
			return g.TimeoutNow("p2", to, &raft.TimeoutNowRequest{RPCHeader: header()}, &raft.TimeoutNowResponse{})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			here, there := testGate(t), answering(t, "127.0.0.1:0", maxPool)
			addr := there.LocalAddr()
			idle := make(chan error, maxPool)
			for range maxPool {
				go func() { idle <- tt.call(here, addr) }()
			}
			for range maxPool {
				if err := <-idle; err != nil {
					t.Fatalf("call before the restart: %v", err)
				}
			}
			if err := there.Close(); err != nil {
				t.Fatal(err)
			}
			answering(t, string(addr), 1)
			if err := tt.call(here, addr); err != nil {
				t.Errorf("call after the restart: %v", err)
			}
		})
	}
}

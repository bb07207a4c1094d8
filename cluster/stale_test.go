package cluster

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
)

// answering starts a gate at addr that grants everything. It holds back the first n
// requests until all n have arrived.
func answering(t *testing.T, addr string, n int) *gate {
	t.Helper()
	s, err := listen(addr, "", func() string { return "" }, discard())
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(s, noAddrs{}, discard())
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

// A call to a restarted peer arrives although all idle connections to it have closed.
func TestCallsAfterRestart(t *testing.T) {
	for _, tt := range []struct {
		name string
		call func(*gate, raft.ServerAddress) error
	}{
		{"RequestVote", func(g *gate, to raft.ServerAddress) error {
			return g.RequestVote("p2", to, &raft.RequestVoteRequest{RPCHeader: header(), Term: 7}, &raft.RequestVoteResponse{})
		}},
		{"RequestPreVote", func(g *gate, to raft.ServerAddress) error {
			return g.RequestPreVote("p2", to, &raft.RequestPreVoteRequest{RPCHeader: header(), Term: 7},
				&raft.RequestPreVoteResponse{})
		}},
		{"AppendEntries", func(g *gate, to raft.ServerAddress) error {
			return g.AppendEntries("p2", to, &raft.AppendEntriesRequest{RPCHeader: header(), Term: 7, PrevLogEntry: 1},
				&raft.AppendEntriesResponse{})
		}},
		{"heartbeat", func(g *gate, to raft.ServerAddress) error {
			return g.AppendEntries("p2", to, &raft.AppendEntriesRequest{RPCHeader: header(), Term: 7},
				&raft.AppendEntriesResponse{})
		}},
		{"TimeoutNow", func(g *gate, to raft.ServerAddress) error {
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
					t.Fatalf("before the restart: %v", err)
				}
			}
			if err := there.Close(); err != nil {
				t.Fatal(err)
			}
			answering(t, string(addr), 1)
			if err := tt.call(here, addr); err != nil {
				t.Errorf("after the restart: %v, want an answer", err)
			}
		})
	}
}

// An ending process resets connections before its listener is closed. Only a refused
// connection proves its end.
func TestRedial(t *testing.T) {
	reset := fmt.Errorf("connect to the peer: %w",
		&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)})
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, tt := range []struct {
		name  string
		tries []error
		want  error
		dials int
	}{
		{"alive", []error{nil}, nil, 1},
		{"ended", []error{refused}, refused, 1},
		{"about to end", []error{reset, syscall.EPIPE, io.EOF, refused}, refused, 4},
		{"hung up once", []error{reset, nil}, nil, 2},
		{"hangs up every time", []error{reset}, reset, redials},
		{"unreachable", []error{syscall.EHOSTUNREACH}, syscall.EHOSTUNREACH, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				_, err := redial(t.Context(), func() (net.Conn, error) {
					dials++
					return nil, tt.tries[min(dials, len(tt.tries))-1]
				})
				if diff := cmp.Diff(fmt.Sprint(tt.want, tt.dials), fmt.Sprint(err, dials)); diff != "" {
					t.Errorf("error and dials (-want +got):\n%s", diff)
				}
			})
		})
	}
}

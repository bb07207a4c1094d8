package transport

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
)

func entries() *raft.AppendEntriesRequest {
	return &raft.AppendEntriesRequest{RPCHeader: header(), Term: 3, LeaderCommitIndex: 7}
}

// serveAt answers Raft calls at an address.
func serveAt(t *testing.T, addr string) {
	t.Helper()
	s, err := Listen(StreamConfig{Addr: addr, Logger: discard()})
	if err != nil {
		t.Fatal(err)
	}
	g := NewGate(s, Guard{}, noAddrs{}, discard())
	go func() { // ends with the test
		for {
			select {
			case rpc := <-g.Consumer():
				if req, ok := rpc.Command.(*raft.InstallSnapshotRequest); ok {
					_, err := io.Copy(io.Discard, rpc.Reader)
					rpc.Respond(&raft.InstallSnapshotResponse{RPCHeader: header(), Term: req.Term, Success: err == nil}, err)
					continue
				}
				rpc.Respond(&raft.AppendEntriesResponse{RPCHeader: header(), Term: 3, Success: true}, nil)
			case <-g.stop:
				return
			}
		}
	}()
	t.Cleanup(func() { _ = g.Close() })
}

// freePort returns an address without a listener.
func freePort(t *testing.T) string {
	t.Helper()
	ports, err := freeport.Claim(t.Context(), 1) // outgoing connections do not use it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ports.Release() })
	return ports.Address("127.0.0.1")
}

// Raft pauses for up to 10 s after errors. So a leader's calls do not fail while their peer is
// unreachable, and succeed when it is back.
func TestLeaderRetriesUntilPeerIsBack(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*Gate, raft.ServerAddress) error{
		"entries": func(g *Gate, addr raft.ServerAddress) error {
			var resp raft.AppendEntriesResponse
			err := g.AppendEntries("p2", addr, entries(), &resp)
			if err == nil && !resp.Success {
				return errors.New("refused")
			}
			return err
		},
		"snapshot": func(g *Gate, addr raft.ServerAddress) error {
			var resp raft.InstallSnapshotResponse
			err := g.InstallSnapshot("p2", addr, &raft.InstallSnapshotRequest{RPCHeader: header(), SnapshotVersion: 1, Term: 3,
				Size: 4}, &resp, strings.NewReader("snap"))
			if err == nil && !resp.Success {
				return errors.New("refused")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := testGate(t)
			defer leads(g)()
			addr := freePort(t)
			ended := make(chan error, 1)
			go func() { ended <- call(g, raft.ServerAddress(addr)) }() // waited for below
			select {
			case err := <-ended:
				t.Fatalf("call of an unreachable peer: got an end with %v", err)
			case <-time.After(3 * retryPause):
			}
			serveAt(t, addr)
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("call after the peer is back: got %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("call after the peer is back: timed out")
			}
		})
	}
}

// Calls fail when this peer no longer leads. Heartbeats and calls of a peer that resets the
// connection always fail.
func TestRetriesEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		req *raft.AppendEntriesRequest
		end func(g *Gate, stop func())
	}{
		"leads no more": {entries(), func(_ *Gate, stop func()) { stop() }},
		"hangs up":      {entries(), func(g *Gate, _ func()) { g.HangUp() }},
		"heartbeat":     {&raft.AppendEntriesRequest{RPCHeader: header(), Term: 3}, func(*Gate, func()) {}},
	} {
		t.Run(name, func(t *testing.T) {
			g := testGate(t)
			stop := leads(g)
			ended := make(chan error, 1)
			go func() { // waited for below
				ended <- g.AppendEntries("p2", raft.ServerAddress(freePort(t)), tc.req, &raft.AppendEntriesResponse{})
			}()
			tc.end(g, stop)
			select {
			case err := <-ended:
				if err == nil {
					t.Error("got no error, want one")
				}
			case <-time.After(20 * time.Second):
				t.Fatal("wait for the end of the call: timed out")
			}
		})
	}
}

// A vanished host does not even refuse connections. A call to it must not keep Raft from shutting
// down.
func TestCallsToVanishedHostEndSoon(t *testing.T) {
	t.Parallel()
	g := testGate(t)
	defer leads(g)()
	addr := blackHole(t)
	ended := make(chan error, 1)
	began := time.Now()
	go func() { // waited for below
		ended <- g.AppendEntries("p2", raft.ServerAddress(addr), entries(), &raft.AppendEntriesResponse{})
	}()
	select {
	case err := <-ended:
		t.Fatalf("call: got an end with %v, want it in progress", err)
	case <-time.After(3 * retryPause): // the call is in progress
	}
	g.HangUp()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("got no error, want one")
		}
		// One attempt may be in progress, which lasts up to connectTimeout.
		if took := time.Since(began); took > ShutdownTimeout/2 {
			t.Errorf("got the end of the call after %v, but Raft has only %v to shut down", took, ShutdownTimeout)
		}
	case <-time.After(2 * transportTimeout):
		t.Fatal("wait for the end of the call: timed out")
	}
}

// blackHole returns an address where connections are neither accepted nor refused: a
// listener with a full queue.
func blackHole(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
		unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: sa.(*unix.SockaddrInet4).Port}).String()
	for range 10 {
		c, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Skip("the queue of connections of this kernel does not fill up")
	return ""
}

package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func TestGateRefusesVotes(t *testing.T) {
	s := mustListen()
	g := NewGate(s, Guard{}, nil, slog.New(slog.DiscardHandler))
	defer func() { _ = g.Close() }()
	passed := make(chan raft.RPC, 10)
	done := make(chan struct{})
	defer func() { <-done }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(done)
		for {
			select {
			case rpc := <-g.Consumer():
				passed <- rpc
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
			case <-ctx.Done():
				return
			}
		}
	}()
	from := NewGate(mustListen(), Guard{}, nil, slog.New(slog.DiscardHandler))
	defer func() { _ = from.Close() }()
	from.admitted.Store(true)
	to := raft.ServerAddress(s.Addr().String())
	for _, admitted := range []bool{false, true} {
		g.admitted.Store(admitted)
		var vote raft.RequestVoteResponse
		if err := from.RequestVote("g", to, &raft.RequestVoteRequest{RPCHeader: header(), Term: 5}, &vote); err != nil ||
			vote.Granted != admitted {
			t.Errorf("admitted %t: got vote %t (%v)", admitted, vote.Granted, err)
		}
		var pre raft.RequestPreVoteResponse
		if err := from.RequestPreVote("g", to, &raft.RequestPreVoteRequest{RPCHeader: header(), Term: 5},
			&pre); err != nil || pre.Granted != admitted {
			t.Errorf("admitted %t: got pre-vote %t (%v)", admitted, pre.Granted, err)
		}
		err := from.TimeoutNow("g", to, &raft.TimeoutNowRequest{RPCHeader: header()}, &raft.TimeoutNowResponse{})
		if (err == nil) != admitted {
			t.Errorf("admitted %t: timeout now: got %v", admitted, err)
		}
		var app raft.AppendEntriesResponse
		if err := from.AppendEntries("g", to, &raft.AppendEntriesRequest{RPCHeader: header(), Term: 5, PrevLogEntry: 1},
			&app); err != nil || !app.Success {
			t.Errorf("admitted %t: append entries: got a refusal (%v)", admitted, err)
		}
		// It does not request votes either.
		if err := g.RequestVote("x", "127.0.0.1:1", &raft.RequestVoteRequest{},
			&raft.RequestVoteResponse{}); errors.Is(err, ErrNotAdmitted) == admitted {
			t.Errorf("admitted %t: request a vote: got %v", admitted, err)
		}
		if err := g.RequestPreVote("x", "127.0.0.1:1", &raft.RequestPreVoteRequest{},
			&raft.RequestPreVoteResponse{}); errors.Is(err, ErrNotAdmitted) == admitted {
			t.Errorf("admitted %t: request a pre-vote: got %v", admitted, err)
		}
	}
	if got := len(passed); got != 5 {
		t.Errorf("requests in raft: got %d, want 5", got)
	}
	if !g.CallElection(time.Second) {
		t.Error("call an election: got no request in raft")
	}
}

// attach changes a part of the Raft that a gate asks. Before the first change, the gate leads
// nobody, has written everything and knows no voter.
func attach(g *Gate, change func(*Local)) {
	l := Local{
		Voter:      func() (raft.ServerID, bool) { return "", false },
		FirstIndex: func() (uint64, error) { return 1, nil },
		Term:       func() uint64 { return math.MaxUint64 },
		Synced:     written,
		Follows:    func(raft.ServerID, uint64) bool { return false },
	}
	if now := g.local.Load(); now != nil {
		l = *now
	}
	change(&l)
	g.Attach(l)
}

// written is the disk of a peer that has written its whole log.
func written(uint64) (bool, <-chan struct{}) { return true, nil }

// leads makes the gate treat this peer as the leader until the returned function is called.
func leads(g *Gate) (stop func()) {
	var over atomic.Bool
	attach(g, func(l *Local) { l.Follows = func(raft.ServerID, uint64) bool { return !over.Load() } })
	return func() { over.Store(true) }
}

// While no leader is known, the gate gives candidates the name of a voter, so that Raft compares
// only their logs.
func TestGateJudgesByLog(t *testing.T) {
	s := mustListen()
	g := NewGate(s, Guard{}, nil, slog.New(slog.DiscardHandler))
	defer func() { _ = g.Close() }()
	g.admitted.Store(true)
	from := NewGate(mustListen(), Guard{}, nil, slog.New(slog.DiscardHandler))
	defer func() { _ = from.Close() }()
	from.admitted.Store(true)
	to := raft.ServerAddress(s.Addr().String())
	for _, tc := range []struct {
		voter string // if no leader is known
		want  string
	}{{"n2", "n2"}, {"", "n1"}} {
		attach(g, func(l *Local) {
			l.Voter = func() (raft.ServerID, bool) { return raft.ServerID(tc.voter), tc.voter != "" }
		})
		got := make(chan string, 2)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 2 {
				switch rpc := <-g.Consumer(); req := rpc.Command.(type) {
				case *raft.RequestVoteRequest:
					got <- string(req.ID)
					rpc.Respond(&raft.RequestVoteResponse{}, nil)
				case *raft.RequestPreVoteRequest:
					got <- string(req.ID)
					rpc.Respond(&raft.RequestPreVoteResponse{}, nil)
				}
			}
		}()
		candidate := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("n1")}
		if err := from.RequestVote("g", to, &raft.RequestVoteRequest{RPCHeader: candidate},
			&raft.RequestVoteResponse{}); err != nil {
			t.Fatal(err)
		}
		if err := from.RequestPreVote("g", to, &raft.RequestPreVoteRequest{RPCHeader: candidate},
			&raft.RequestPreVoteResponse{}); err != nil {
			t.Fatal(err)
		}
		<-done
		if vote, pre := <-got, <-got; vote != tc.want || pre != tc.want {
			t.Errorf("voter %q: got candidates %q and %q in raft, want %q", tc.voter, vote, pre, tc.want)
		}
	}
}

// TestGreetingsAreJudgedFirst checks that no message of a peer reaches Raft if its greeting is
// refused, and that the greeting arrives whole.
func TestGreetingsAreJudgedFirst(t *testing.T) {
	said := &internalv1.Greeting{PeerId: "n1", Admitted: true,
		Marks: &internalv1.Marks{Instance: "i", Count: 99, Ids: []uint64{1, 2}}}
	for _, refused := range []bool{false, true} {
		to, from := mustListen(), mustListen()
		from.greeting = func() *internalv1.Greeting { return said }
		var got *internalv1.Greeting
		g := NewGate(to, Guard{Greet: func(h *internalv1.Greeting) error {
			if got = h; refused {
				return errors.New("too old")
			}
			return nil
		}}, nil, discard())
		g.Admit(true)
		reached := make(chan bool, 1)
		go func() { // ends with the message, or with the gate
			select {
			case rpc := <-g.Consumer():
				reached <- true
				rpc.Respond(&raft.RequestVoteResponse{}, nil)
			case <-g.stop:
				reached <- false
			}
		}()
		sender := raft.NewNetworkTransport(from, 1, 5*time.Second, io.Discard)
		err := sender.RequestVote("g", raft.ServerAddress(to.Addr().String()), &raft.RequestVoteRequest{},
			&raft.RequestVoteResponse{})
		if (err != nil) != refused {
			t.Errorf("refused: %t: got %v", refused, err)
		}
		if err := errors.Join(g.Close(), sender.Close()); err != nil {
			t.Error(err)
		}
		if <-reached == refused {
			t.Errorf("refused: %t: got a message in raft: %t", refused, !refused)
		}
		if !proto.Equal(got, said) {
			t.Errorf("greeting: got %v, want %v", got, said)
		}
	}
}

func TestStreamsOfOneClusterOnly(t *testing.T) {
	for _, tc := range []struct {
		from, to string
		want     bool
	}{
		{"x", "x", true}, {"", "x", true}, {"x", "", true}, {"x", "y", false},
	} {
		to, from := mustListen(), mustListen()
		of := func(id string) func() *internalv1.Greeting {
			return func() *internalv1.Greeting { return &internalv1.Greeting{ClusterId: id} }
		}
		to.greeting, from.greeting = of(tc.to), of(tc.from)
		c, err := from.Dial(raft.ServerAddress(to.Addr().String()), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		accepted, err := to.Accept()
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 5)
		_, err = io.ReadFull(accepted, buf)
		if got := err == nil && string(buf) == "hello"; got != tc.want {
			t.Errorf("stream from cluster %q to %q: got %q (%v), want accepted: %t", tc.from, tc.to, buf, err, tc.want)
		}
		if err := errors.Join(to.Close(), from.Close()); err != nil {
			t.Error(err)
		}
	}
	to := mustListen()
	defer func() { _ = to.Close() }()
	plain, err := net.Dial("tcp", to.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	if _, err := plain.Write([]byte("GET / HTTP/1.1\r\n")); err != nil {
		t.Fatal(err)
	}
	accepted, err := to.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := accepted.Read(make([]byte, 1)); err == nil {
		t.Errorf("connection without a handshake: got %d bytes, want an error", n)
	}
}

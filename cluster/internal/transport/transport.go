// Package transport owns the connections between peers on which Raft talks: the listener with its
// greeting and TLS, the calls with their retries, and the gate that keeps a peer without its data
// from voting. It must not decide which peer may vote or leads: the peer passes that in.
package transport

import (
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/liblog"
)

// ErrNotAdmitted means that a peer that is not admitted must not do what only a voter does.
var ErrNotAdmitted = errors.New("peer may not vote yet: it is catching up after losing its data")

// Gate sits between Raft and the network. A peer that lost its data must not vote before it
// has caught up: it has forgotten its acknowledgements, so it could elect a leader that
// lacks committed entries. The gate refuses such votes itself. It also lets this peer call
// an election.
//
// The acknowledgements of such a peer do count, because it has to catch up. A paused leader
// of an older term cannot commit with them when it resumes: its lease has expired, so it
// steps down before an answer can arrive. The exception needs three faults at once: its
// main loop waits for the disk longer than a round trip, the newer leader has failed, and
// the peer was wiped.
type Gate struct {
	*raft.NetworkTransport

	rpcs     chan raft.RPC
	admitted atomic.Bool
	local    atomic.Pointer[Local] // nil until Attach
	hungUp   chan struct{}         // closed by HangUp
	hangUp   sync.Once
	refused  atomic.Uint64 // the term of the last vote request that this peer refused
	commits  *commits

	guard       Guard
	inboxes     inboxes
	onHeartbeat atomic.Pointer[func(raft.RPC)] // Raft's handler of heartbeats
	granted     atomic.Pointer[Vote]

	layer raft.StreamLayer
	addrs raft.ServerAddressProvider
	log   *slog.Logger

	stopOnce sync.Once
	stop     chan struct{}
	done     chan struct{}
}

// transportTimeout bounds one Raft call on the network. A follower may be as slow as its
// disk; a call that ends early is only repeated.
const transportTimeout = 10 * time.Second

// ShutdownTimeout is how long Raft may take to shut down. It waits for the calls of the gate,
// so those must end much sooner after HangUp.
const ShutdownTimeout = 10 * time.Second

// maxPool is how many idle connections per peer the library keeps.
const maxPool = 3

// maxInFlight is how many requests of a pipeline may be unanswered: two of Raft, and a notice.
const maxInFlight = 3

// Local is the part of this peer's Raft that the gate asks.
type Local struct {
	// Voter returns a voter of the latest configuration. ok is false if there is none, or if a
	// leader is known.
	Voter func() (id raft.ServerID, ok bool)
	// FirstIndex returns the first index of this peer's log.
	FirstIndex func() (uint64, error)
	// Term returns the current term.
	Term func() uint64
	// Synced reports whether this peer's log is on disk up to an entry. If not, the channel is
	// closed when more of it is.
	Synced func(index uint64) (bool, <-chan struct{})
	// Follows reports whether this peer leads in the term and replicates entries to the peer.
	Follows func(id raft.ServerID, term uint64) bool
	// Replaces returns an error if a snapshot with that last entry must not replace this peer's
	// state, and makes the peer stop.
	Replaces func(index uint64) error
}

// Attach connects the gate to this peer's Raft, which has been started with it.
func (g *Gate) Attach(l Local) { g.local.Store(&l) }

// Admitted reports whether this peer may vote.
func (g *Gate) Admitted() bool { return g.admitted.Load() }

// Admit allows or forbids this peer to vote. It reports whether the peer might before.
func (g *Gate) Admit(may bool) (before bool) { return g.admitted.Swap(may) }

// Refused returns the term of the last vote request that this peer refused, or 0.
func (g *Gate) Refused() uint64 { return g.refused.Load() }

// NewGate returns a gate that uses the connections of a stream. It must be closed.
func NewGate(s raft.StreamLayer, guard Guard, addrs raft.ServerAddressProvider, log *slog.Logger) *Gate {
	stop := make(chan struct{})
	g := &Gate{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			ServerAddressProvider:   addrs,
			Logger:                  liblog.New(log, "raft-net"),
			Stream:                  outgoing{s, stop},
			MaxPool:                 maxPool,
			MaxRPCsInFlight:         maxInFlight,
			Timeout:                 transportTimeout,
			MsgpackUseNewTimeFormat: true, // permanently: peers with different formats cannot talk to each other
		}),
		rpcs:    make(chan raft.RPC),
		hungUp:  make(chan struct{}),
		commits: newCommits(),
		guard:   guard,
		layer:   s,
		addrs:   addrs,
		log:     log,
		stop:    stop,
		done:    make(chan struct{}),
	}
	g.inboxes.by = map[string]*inbox{}
	go func() { // ends with Close
		defer close(g.done)
		g.listen()
	}()
	return g
}

// Consumer implements raft.Transport.
func (g *Gate) Consumer() <-chan raft.RPC { return g.rpcs }

// pump passes the messages of a peer to Raft.
func (g *Gate) pump(b *inbox) {
	in := b.NetworkTransport.Consumer()
	for {
		select {
		case rpc := <-in:
			if err := g.permit(b, rpc.Command); err != nil {
				rpc.Respond(nil, err)
				continue
			}
			if !g.admitted.Load() && refuse(rpc) {
				continue
			}
			if err := g.replaces(rpc); err != nil {
				rpc.Respond(nil, err)
				continue
			}
			rpc = g.noteVote(rpc)
			g.judgeByLog(rpc)
			if !g.finishWrites(rpc) {
				rpc.Respond(nil, errHungUp)
				continue
			}
			select {
			case g.rpcs <- rpc:
			case <-g.stop:
				return
			}
		case <-g.stop:
			return
		}
	}
}

// Vote is a vote that this peer has given since it started.
type Vote struct {
	Term uint64
	ID   string // the candidate
}

// VotedFor reports whether this peer has voted for a candidate in a term since it started.
func (g *Gate) VotedFor(id string, term uint64) bool {
	v := g.granted.Load()
	return v != nil && *v == Vote{term, id}
}

// noteVote records each vote that this peer gives, and the term of each request that it refuses,
// for the death watch. The caller must answer on the channel of the returned request.
func (g *Gate) noteVote(rpc raft.RPC) raft.RPC {
	req, ok := rpc.Command.(*raft.RequestVoteRequest)
	if !ok {
		return rpc
	}
	vote := Vote{req.Term, string(req.ID)} // judgeByLog may change it
	caller, answers := rpc.RespChan, make(chan raft.RPCResponse, 1)
	rpc.RespChan = answers
	go func() { // ends with the answer, or with Close
		select {
		case a := <-answers:
			if r, ok := a.Response.(*raft.RequestVoteResponse); ok && a.Error == nil && r.Granted {
				g.granted.Store(&vote)
			} else if ok && a.Error == nil {
				g.refused.Store(vote.Term)
			}
			caller <- a // buffered
		case <-g.stop:
		}
	}()
	return rpc
}

// refuse answers a request that only a voter may serve, and reports whether it was one.
func refuse(rpc raft.RPC) bool {
	switch req := rpc.Command.(type) {
	case *raft.RequestVoteRequest:
		rpc.Respond(&raft.RequestVoteResponse{RPCHeader: header(), Term: req.Term}, nil)
	case *raft.RequestPreVoteRequest:
		rpc.Respond(&raft.RequestPreVoteResponse{RPCHeader: header(), Term: req.Term}, nil)
	case *raft.TimeoutNowRequest:
		rpc.Respond(&raft.TimeoutNowResponse{RPCHeader: header()}, ErrNotAdmitted)
	default:
		return false
	}
	return true
}

// judgeByLog makes Raft judge candidates only by their log while no leader is known, as the
// Raft paper requires. The library refuses candidates that are not voters in this peer's
// latest configuration. But this peer may lack the very entry that made the candidate a
// voter. If the leader that wrote the entry is lost permanently, the remaining two are a
// majority and would refuse each other forever. So the request is changed to name a known
// voter.
func (g *Gate) judgeByLog(rpc raft.RPC) {
	l := g.local.Load()
	if l == nil {
		return
	}
	switch req := rpc.Command.(type) {
	case *raft.RequestVoteRequest:
		if id, ok := l.Voter(); ok {
			req.ID = []byte(id)
		}
	case *raft.RequestPreVoteRequest:
		if id, ok := l.Voter(); ok {
			req.ID = []byte(id)
		}
	}
}

// replaces returns an error if a message has a snapshot that must not replace this peer's state.
// Raft would install any.
func (g *Gate) replaces(rpc raft.RPC) error {
	req, ok := rpc.Command.(*raft.InstallSnapshotRequest)
	l := g.local.Load()
	if !ok || l == nil || l.Replaces == nil || req.Term < l.Term() {
		return nil // Raft refuses what an earlier leader has sent
	}
	return l.Replaces(req.LastLogIndex)
}

func header() raft.RPCHeader { return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax} }

// RequestVote implements raft.Transport. Dormant timeouts keep a peer that is not admitted
// from standing. This check enforces it.
func (g *Gate) RequestVote(
	id raft.ServerID,
	addr raft.ServerAddress,
	req *raft.RequestVoteRequest,
	resp *raft.RequestVoteResponse,
) error {
	if !g.admitted.Load() {
		return ErrNotAdmitted
	}
	return fresh(func() error { return g.NetworkTransport.RequestVote(id, addr, req, resp) })
}

// RequestPreVote implements raft.WithPreVote.
func (g *Gate) RequestPreVote(
	id raft.ServerID,
	addr raft.ServerAddress,
	req *raft.RequestPreVoteRequest,
	resp *raft.RequestPreVoteResponse,
) error {
	if !g.admitted.Load() {
		return ErrNotAdmitted
	}
	return fresh(func() error { return g.NetworkTransport.RequestPreVote(id, addr, req, resp) })
}

// TimeoutNow implements raft.Transport.
func (g *Gate) TimeoutNow(
	id raft.ServerID,
	addr raft.ServerAddress,
	req *raft.TimeoutNowRequest,
	resp *raft.TimeoutNowResponse,
) error {
	return fresh(func() error { return g.NetworkTransport.TimeoutNow(id, addr, req, resp) })
}

// fresh retries a call whose connection was closed until none of the library's idle
// connections can be left. When a peer restarts, all idle connections to it close, but the
// library notices only when it uses one. A vote lost that way costs an election timeout.
// Each call may arrive twice.
func fresh(call func() error) error {
	for try := 0; ; try++ {
		if err := call(); try == maxPool || !Closed(err) {
			return err
		}
	}
}

// Closed reports whether an error means that the other end closed the connection.
func Closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// CallElection makes this peer stand for election now, as a transfer of the leadership
// would. The others vote although their timers have not expired. It reports whether Raft
// accepted the request.
func (g *Gate) CallElection(timeout time.Duration) bool {
	r, ok := g.Deliver(&raft.TimeoutNowRequest{RPCHeader: header()}, timeout)
	return ok && r.Error == nil
}

// Deliver passes a request to this peer's Raft as the network would, and returns the answer. ok is
// false if there is none in time.
func (g *Gate) Deliver(request any, timeout time.Duration) (answer raft.RPCResponse, ok bool) {
	resp := make(chan raft.RPCResponse, 1)
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case g.rpcs <- raft.RPC{Command: request, RespChan: resp}:
	case <-g.stop:
		return raft.RPCResponse{}, false
	case <-t.C:
		return raft.RPCResponse{}, false
	}
	select {
	case r := <-resp:
		return r, true
	case <-g.stop:
	case <-t.C:
	}
	return raft.RPCResponse{}, false
}

// Close implements raft.WithClose. Raft calls it after its shutdown.
func (g *Gate) Close() error {
	g.stopOnce.Do(func() { close(g.stop) })
	err := g.NetworkTransport.Close() // with the listener
	<-g.done
	return errors.Join(err, g.closeInboxes())
}

var (
	_ raft.Transport   = (*Gate)(nil)
	_ raft.WithPreVote = (*Gate)(nil)
	_ io.Closer        = (*Gate)(nil)
)

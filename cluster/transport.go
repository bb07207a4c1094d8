package cluster

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

var (
	errNotAdmitted = errors.New("peer may not vote yet: it is catching up after losing its data")
	errNoVoter     = errors.New("peer is not a voter: the leader has not promoted it yet")
)

// gate sits between Raft and the network. A peer that lost its data must not vote before it
// has caught up: it has forgotten its acknowledgements, so it could elect a leader that
// lacks committed entries. The gate refuses such votes itself. It also lets this peer call
// an election.
//
// The acknowledgements of such a peer do count, because it has to catch up. A paused leader
// of an older term cannot commit with them when it resumes: its lease has expired, so it
// steps down before an answer can arrive. The exception needs three faults at once: its
// main loop waits for the disk longer than a round trip, the newer leader has failed, and
// the peer was wiped.
type gate struct {
	*raft.NetworkTransport

	rpcs     chan raft.RPC
	admitted atomic.Bool
	voter    atomic.Pointer[func() (raft.ServerID, bool)]     // see judgeByLog
	follows  atomic.Pointer[func(raft.ServerID, uint64) bool] // see serves
	hungUp   atomic.Bool
	// firstIndex returns the first index of this peer's log: see compacted.
	firstIndex atomic.Pointer[func() (uint64, error)]
	refused    atomic.Uint64 // the term of the last vote request that this peer refused

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

// maxPool is how many idle connections per peer the library keeps.
const maxPool = 3

func newGate(s raft.StreamLayer, addrs raft.ServerAddressProvider, log *slog.Logger) *gate {
	g := &gate{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			ServerAddressProvider:   addrs,
			Logger:                  liblog.New(log, "raft-net"),
			Stream:                  s,
			MaxPool:                 maxPool,
			Timeout:                 transportTimeout,
			MsgpackUseNewTimeFormat: true, // permanently: peers with different formats cannot talk to each other
		}),
		rpcs:  make(chan raft.RPC),
		layer: s,
		addrs: addrs,
		log:   log,
		stop:  make(chan struct{}),
		done:  make(chan struct{}),
	}
	go g.pump() // ends with Close
	return g
}

// Consumer implements raft.Transport.
func (g *gate) Consumer() <-chan raft.RPC { return g.rpcs }

func (g *gate) pump() {
	defer close(g.done)
	in := g.NetworkTransport.Consumer()
	for {
		select {
		case rpc := <-in:
			if !g.admitted.Load() && refuse(rpc) {
				continue
			}
			g.judgeByLog(rpc)
			rpc = g.noteRefusal(rpc)
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

// noteRefusal records the term of each vote request that this peer refuses, for the death
// watch. The caller must answer on the channel of the returned request.
func (g *gate) noteRefusal(rpc raft.RPC) raft.RPC {
	req, ok := rpc.Command.(*raft.RequestVoteRequest)
	if !ok {
		return rpc
	}
	caller, answers := rpc.RespChan, make(chan raft.RPCResponse, 1)
	rpc.RespChan = answers
	go func() { // ends with the answer, or with Close
		select {
		case a := <-answers:
			if vote, ok := a.Response.(*raft.RequestVoteResponse); ok && a.Error == nil && !vote.Granted {
				g.refused.Store(req.Term)
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
		rpc.Respond(&raft.TimeoutNowResponse{RPCHeader: header()}, errNotAdmitted)
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
func (g *gate) judgeByLog(rpc raft.RPC) {
	voter := g.voter.Load()
	if voter == nil {
		return
	}
	switch req := rpc.Command.(type) {
	case *raft.RequestVoteRequest:
		if id, ok := (*voter)(); ok {
			req.ID = []byte(id)
		}
	case *raft.RequestPreVoteRequest:
		if id, ok := (*voter)(); ok {
			req.ID = []byte(id)
		}
	}
}

func header() raft.RPCHeader { return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax} }

// RequestVote implements raft.Transport. Dormant timeouts keep a peer that is not admitted
// from standing. This check enforces it.
func (g *gate) RequestVote(
	id raft.ServerID,
	addr raft.ServerAddress,
	req *raft.RequestVoteRequest,
	resp *raft.RequestVoteResponse,
) error {
	if !g.admitted.Load() {
		return errNotAdmitted
	}
	return fresh(func() error { return g.NetworkTransport.RequestVote(id, addr, req, resp) })
}

// RequestPreVote implements raft.WithPreVote.
func (g *gate) RequestPreVote(
	id raft.ServerID,
	addr raft.ServerAddress,
	req *raft.RequestPreVoteRequest,
	resp *raft.RequestPreVoteResponse,
) error {
	if !g.admitted.Load() {
		return errNotAdmitted
	}
	return fresh(func() error { return g.NetworkTransport.RequestPreVote(id, addr, req, resp) })
}

// TimeoutNow implements raft.Transport.
func (g *gate) TimeoutNow(
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
		if err := call(); try == maxPool || !connClosed(err) {
			return err
		}
	}
}

// connClosed reports whether an error means that the other end closed the connection.
func connClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// callElection makes this peer stand for election now, as a transfer of the leadership
// would. The others vote although their timers have not expired. It reports whether Raft
// accepted the request.
func (g *gate) callElection(timeout time.Duration) bool {
	resp := make(chan raft.RPCResponse, 1)
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case g.rpcs <- raft.RPC{Command: &raft.TimeoutNowRequest{RPCHeader: header()}, RespChan: resp}:
	case <-g.stop:
		return false
	case <-t.C:
		return false
	}
	select {
	case r := <-resp:
		return r.Error == nil
	case <-g.stop:
	case <-t.C:
	}
	return false
}

// Close implements raft.WithClose. Raft calls it after its shutdown.
func (g *gate) Close() error {
	g.stopOnce.Do(func() { close(g.stop) })
	<-g.done
	return g.NetworkTransport.Close()
}

var (
	_ raft.Transport   = (*gate)(nil)
	_ raft.WithPreVote = (*gate)(nil)
	_ io.Closer        = (*gate)(nil)
)

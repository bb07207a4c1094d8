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
)

var (
	errNotAdmitted = errors.New("peer may not vote yet: it has not caught up with the cluster since it lost its data")
	errNoVoter     = errors.New("peer is no voter: the leader has not given it its vote yet")
)

// gate stands between Raft and its network. A peer that lost its data must not vote before it has
// caught up: with its forgotten acknowledgements it could elect a leader that lacks committed
// entries. The gate answers such votes itself. It also lets this peer call an election.
//
// Its acknowledgements of entries do count, for it has to catch up. A paused leader of an older
// term cannot commit with them when it resumes: its lease has run out, so it steps down before an
// answer can arrive, unless its main loop is held up at the disk for longer than a round trip at
// that moment, after the newer leader has failed and the peer was wiped.
type gate struct {
	*raft.NetworkTransport

	rpcs     chan raft.RPC
	admitted atomic.Bool
	voter    atomic.Pointer[func() (raft.ServerID, bool)]     // see judgeByLog
	follows  atomic.Pointer[func(raft.ServerID, uint64) bool] // see serves
	hungUp   atomic.Bool
	// firstIndex returns the first index of this peer's log: see compacted.
	firstIndex atomic.Pointer[func() (uint64, error)]
	refused    atomic.Uint64 // the term of the last vote that was refused

	layer raft.StreamLayer
	addrs raft.ServerAddressProvider
	log   *slog.Logger

	stopOnce sync.Once
	stop     chan struct{}
	done     chan struct{}
}

// transportTimeout bounds one Raft call on the network. A follower may be slow for as long
// as its disk is; a call that ends early is only repeated.
const transportTimeout = 10 * time.Second

// maxPool is how many idle connections to each peer the library keeps.
const maxPool = 3

func newGate(s raft.StreamLayer, addrs raft.ServerAddressProvider, log *slog.Logger) *gate {
	g := &gate{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			ServerAddressProvider:   addrs,
			Logger:                  newHCLog(log, "raft-net"),
			Stream:                  s,
			MaxPool:                 maxPool,
			Timeout:                 transportTimeout,
			MsgpackUseNewTimeFormat: true, // for ever: peers of both formats could not talk
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

// noteRefusal makes the term of a vote that this peer refuses known to the death watch. The caller
// must answer on the channel of the returned request.
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
			caller <- a // it has room for one
		case <-g.stop:
		}
	}()
	return rpc
}

// refuse answers a request that only a voter may serve, and says whether it was one.
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

// judgeByLog makes Raft judge a candidate by its log and nothing else while no leader is known, as
// the Raft paper wants it. The library refuses candidates that do not vote in the latest
// configuration that this peer has, and this peer may be behind by just the entry that made the
// candidate a voter. When the leader that wrote it is gone for good, the two that are left, a
// majority, would refuse each other for ever. So the request bears the name of one who does vote.
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

// RequestVote implements raft.Transport. Dormant timeouts keep a peer that is not admitted from
// standing; this makes sure of it.
func (g *gate) RequestVote(id raft.ServerID, addr raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if !g.admitted.Load() {
		return errNotAdmitted
	}
	return fresh(func() error { return g.NetworkTransport.RequestVote(id, addr, req, resp) })
}

// RequestPreVote implements raft.WithPreVote.
func (g *gate) RequestPreVote(id raft.ServerID, addr raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if !g.admitted.Load() {
		return errNotAdmitted
	}
	return fresh(func() error { return g.NetworkTransport.RequestPreVote(id, addr, req, resp) })
}

// TimeoutNow implements raft.Transport.
func (g *gate) TimeoutNow(id raft.ServerID, addr raft.ServerAddress, req *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return fresh(func() error { return g.NetworkTransport.TimeoutNow(id, addr, req, resp) })
}

// fresh repeats a call that failed because its connection was closed, until none of the library's
// idle connections can be left. The library learns that an idle connection has closed, as all do
// when the peer restarts, only when it uses one. A vote that is lost in this way costs an election
// timeout. Each of the calls may arrive twice.
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

// callElection makes this peer stand for election now, as a leader that hands over would. The
// others vote although their timers have not run out. It says whether Raft took it.
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

// Close implements raft.WithClose; Raft calls it when it has shut down.
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

package transport

import (
	"errors"
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// Retries to an unresponsive peer. Raft backs off up to 10 s before it sends entries to
// such a peer again, and goes on waiting when the peer is back. So a leading peer hides
// these errors from Raft. The call is repeated here every retryPause until the peer accepts
// it or this peer no longer leads in the term. Heartbeats are not retried: their pauses are
// short, and their failures show the leader that it has lost its followers.

const retryPause = 100 * time.Millisecond

var errHungUp = errors.New("this peer is stopping")

// AppendEntries implements raft.Transport.
func (g *Gate) AppendEntries(
	id raft.ServerID,
	addr raft.ServerAddress,
	req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse,
) error {
	if isHeartbeat(req) {
		return g.append(id, addr, req, resp)
	}
	for _, part := range split(req) {
		behind := func() bool { return g.compacted(part) }
		err := g.retryUntilAccepted(id, req.Term, behind, func() error { return g.append(id, addr, part, resp) })
		if err != nil || !resp.Success {
			return err
		}
		if err := g.awaitSync(last(part), func() bool { return g.serves(id, req.Term) }); err != nil {
			return err
		}
		g.commits.match(id, part)
	}
	return nil
}

// compacted reports whether the log now begins after the entries of a request. The peer
// then needs a snapshot, which Raft sends once the call has failed.
func (g *Gate) compacted(req *raft.AppendEntriesRequest) bool {
	l := g.local.Load()
	if l == nil || len(req.Entries) == 0 {
		return false
	}
	first, err := l.FirstIndex()
	return err == nil && first > req.Entries[0].Index
}

func (g *Gate) append(
	id raft.ServerID,
	addr raft.ServerAddress,
	req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse,
) error {
	if g.isHungUp() {
		return errHungUp
	}
	return fresh(func() error {
		*resp = raft.AppendEntriesResponse{}
		return g.NetworkTransport.AppendEntries(id, addr, req, resp)
	})
}

// retryUntilAccepted repeats a call to a follower until it succeeds, this peer no longer
// leads in the term, or giveUp returns true.
func (g *Gate) retryUntilAccepted(id raft.ServerID, term uint64, giveUp func() bool, call func() error) error {
	err := call()
	if err == nil || !g.serves(id, term) {
		return err
	}
	began := time.Now()
	g.log.Warn("replication to peer failed, retrying", "peer", id, "error", err)
	for err != nil && g.serves(id, term) && !giveUp() {
		select {
		case <-time.After(retryPause):
		case <-g.stop:
			return err
		}
		err = call()
	}
	if err == nil {
		g.log.Info("replication to peer resumed", "peer", id, "after", time.Since(began).Round(time.Millisecond))
	}
	return err
}

// serves reports whether this peer still leads in a term and replicates to the peer.
func (g *Gate) serves(id raft.ServerID, term uint64) bool {
	l := g.local.Load()
	return l != nil && !g.isHungUp() && l.Follows(id, term)
}

// isHeartbeat distinguishes heartbeats from entries as the library's own transport does.
func isHeartbeat(r *raft.AppendEntriesRequest) bool {
	return r.PrevLogEntry == 0 && r.PrevLogTerm == 0 && len(r.Entries) == 0 && r.LeaderCommitIndex == 0
}

// InstallSnapshot implements raft.Transport. The snapshot can be read only once, so the
// peer must be reachable before it is sent.
func (g *Gate) InstallSnapshot(
	id raft.ServerID,
	addr raft.ServerAddress,
	req *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse,
	data io.Reader,
) error {
	never := func() bool { return false }
	err := g.retryUntilAccepted(id, req.Term, never, func() error { return g.reach(id, addr) })
	if err != nil {
		return err
	}
	return g.NetworkTransport.InstallSnapshot(id, addr, req, resp, data)
}

// reach returns nil if the peer's Raft port accepts connections.
func (g *Gate) reach(id raft.ServerID, addr raft.ServerAddress) error {
	if g.isHungUp() {
		return errHungUp
	}
	if at, err := g.addrs.ServerAddr(id); err == nil {
		addr = at
	}
	conn, err := g.layer.Dial(addr, connectTimeout)
	if err != nil {
		return err
	}
	return conn.Close()
}

// HangUp ends all calls to other peers and prevents new ones.
func (g *Gate) HangUp() {
	g.hangUp.Do(func() { close(g.hungUp) })
	_ = g.layer.Close()
}

func (g *Gate) isHungUp() bool {
	select {
	case <-g.hungUp:
		return true
	default:
		return false
	}
}

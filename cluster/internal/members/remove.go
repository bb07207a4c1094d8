package members

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/internal/propose"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// RemovePeer removes a lost peer from the cluster. With force the peer may be alive. It
// works only on the leader.
func (ms *Members) RemovePeer(ctx context.Context, id string, force bool) error {
	term, err := ms.cfg.Leads()
	if err != nil {
		return ms.refusal(err)
	}
	srv, in := ms.server(id)
	no := func(reason, format string, args ...any) error {
		return &fsm.Error{Code: fsm.FailedPrecondition, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case !in && !force:
		return &fsm.Error{
			Code: fsm.NotFound, Reason: "PEER_NOT_FOUND",
			Message: fmt.Sprintf("peer %q is not in the Raft configuration: see holdfast operator raft list-peers; "+
				"--force denies its certificates nevertheless", id),
		}
	case !in:
		return ms.deny(ctx, id, false)
	case id == ms.cfg.Self:
		return no("PEER_LEADS", "peer %q leads: "+
			"hand the leadership over first (holdfast operator raft transfer-leadership)", id)
	}
	answers := ms.answers(ctx, id)
	if answers && !force {
		return no("PEER_ALIVE", "peer %q answers: "+
			"stop it first, or use --force (to make a peer leave, stop it with leave_on_stop)", id)
	}
	if srv.Suffrage == raft.Voter {
		rest, following := ms.followed(ctx, term, id)
		if following < rest/2+1 {
			return no("NO_QUORUM", "removing peer %q leaves a cluster of %d voters, of which %d answer: not a majority",
				id, rest, following)
		}
	}
	if err := ms.remove(ctx, id, answers, true); err != nil {
		return ms.refusal(err)
	}
	ms.cfg.Logger.Warn("peer removed by an operator, and its certificates denied", "peer", id)
	return nil
}

// followed counts the voters except one, and how many of them lead or follow in the term.
// It asks them, because gossip is slow to detect a dead peer.
func (ms *Members) followed(ctx context.Context, term uint64, but string) (voters, following int) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var wg sync.WaitGroup
	var n atomic.Int64
	for _, s := range ms.cfg.Servers() {
		if s.Suffrage != raft.Voter || string(s.ID) == but {
			continue
		}
		voters++
		wg.Go(func() {
			if st, _, err := ms.cfg.Stats(ctx, string(s.ID)); err == nil && st.GetTerm() == term {
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return voters, int(n.Load())
}

// answers reports whether a peer answers a request for its statistics.
func (ms *Members) answers(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, _, err := ms.cfg.Stats(ctx, id)
	return err == nil
}

// Leave removes a peer that has asked for it.
func (ms *Members) Leave(ctx context.Context, id string) error {
	return ms.remove(ctx, id, true, false)
}

// remove removes a peer from the Raft configuration and from the state. running reports that its
// process has not ended. It is about to stop then, and is not admitted again. Gossip alone cannot
// tell, because it needs seconds to notice a dead peer, which may come back.
//
// deny reports that an operator has decided it, so that its certificates are denied. That is
// recorded first: if the leader fails halfway, the next one removes the peer
// (reconciler.finishRemovals).
func (ms *Members) remove(ctx context.Context, id string, running, deny bool) error {
	if _, err := ms.cfg.Leads(); err != nil {
		return outcome.ErrNotLeader
	}
	if m, ok := ms.gossip.Peer(id); ok && m.Alive && running {
		ms.departed.Store(id, processOf(m.Meta))
	}
	if deny {
		if err := ms.deny(ctx, id, true); err != nil {
			return err
		}
		// failpoint: peer-denied
	}
	if err := wait.For(ctx, ms.raft.RemoveServer(raft.ServerID(id), 0, changeTimeout)); err != nil {
		return &outcome.Error{Outcome: propose.Outcome(err, true), Leader: ms.cfg.Leader(),
			Err: fmt.Errorf("remove peer %s from the raft configuration: %w", id, err)}
	}
	// failpoint: server-removed
	if err := ms.forgetPeer(ctx, id); err != nil {
		// The peer is removed nevertheless, and the leader deletes its record later: see
		// reconciler.forgetRemoved.
		ms.cfg.Logger.Warn("peer removed, but its record is not deleted yet, will retry", "peer", id, "error", err)
	}
	return nil
}

// deny denies the certificates that a peer has: those that were seen, and all that were made
// before. If the peer is to be removed from Raft's configuration, begin is true; otherwise its
// record is deleted.
func (ms *Members) deny(ctx context.Context, id string, begin bool) error {
	ms.certs.Lock()
	defer ms.certs.Unlock()
	d := &internalv1.PeerAdmission{Id: id, IssuedBefore: timestamppb.New(ms.cfg.Now())}
	if rec, ok := ms.cfg.View().Peer(id); ok {
		d.Serials = rec.GetSerials()
	}
	if a, ok := ms.cfg.View().Admission(id); ok {
		d.Serials = append(slices.Clone(a.GetSerials()), d.GetSerials()...)
	}
	if s, ok := ms.serials.Load(id); ok {
		d.Serials = append(slices.Clone(d.GetSerials()), s.(string))
	}
	slices.Sort(d.Serials)
	d.Serials = slices.Compact(d.Serials)
	d.Serials = d.Serials[max(0, len(d.Serials)-keptSerials):]
	return ms.cfg.Commit(ctx, &internalv1.Command{
		Op: &internalv1.Command_RemovePeer{RemovePeer: &internalv1.RemovePeer{Id: id, Denial: d, Begin: begin}},
	})
}

// keptSerials is how many serials of a peer's certificates are kept. Certificates are renewed
// rarely, and those that were made before the removal are denied anyway.
const keptSerials = 32

// forgetPeer deletes the record of a removed peer.
func (ms *Members) forgetPeer(ctx context.Context, id string) error {
	return ms.cfg.Commit(ctx, &internalv1.Command{
		Op: &internalv1.Command_RemovePeer{RemovePeer: &internalv1.RemovePeer{Id: id}},
	})
}

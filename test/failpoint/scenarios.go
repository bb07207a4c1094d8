package failpoint

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/test/lab"
)

// scenario makes a peer reach a point.
type scenario struct {
	forming bool // reached only while a cluster forms: the point is armed from the start
	archive bool // reached only in a cluster that archives its runs, which the other scenarios cannot use
	bmc     bool // reached only in a cluster that has a BMC and installs a machine
	restore bool // reached only in a cluster that restores a snapshot, which removes what others need
	stops   bool // the peer stops there instead of dying, and the test kills another one
	quick   bool // part of the subset that every test run crashes
	provoke func(ctx context.Context, l *lab.Lab) error
}

// scenarios returns one for each point. Without a provoke function, the normal traffic
// reaches the point.
func scenarios() map[string]scenario {
	forming := scenario{forming: true}
	return map[string]scenario{
		"founder-bound":     forming,
		"founders-bound":    forming,
		"founder-agreed":    forming,
		"raft-bootstrapped": forming,
		"cluster-learned":   {forming: true, quick: true},
		"identity-written":  forming,
		"identity-stored":   forming,

		"vote-candidate-stored": {provoke: handOver, quick: true},
		"leader-established":    {provoke: handOver},
		"peer-demoted":          {provoke: wipe},
		"peer-recorded":         {provoke: wipe},
		"peer-admitted":         {provoke: wipe},
		"admission-stored":      {provoke: wipe, quick: true},
		"peer-promoted":         {provoke: wipe},
		"server-removed":        {provoke: leave},
		"peer-denied":           {provoke: remove},
		"snapshot-restored":     {provoke: wipe},
		"snapshot-written":      {},
		"snapshot-stored":       {},
		"entry-committed":       {},
		"entry-applied":         {},

		"intent-committed":   {},
		"effect-due":         {},
		"term-confirmed":     {quick: true},
		"effect-leaving":     {quick: true},
		"effect-done":        {quick: true},
		"progress-committed": {provoke: long},
		"evidence-gathered":  {},
		"outcome-committed":  {quick: true},
		"logs-committed":     {},
		"run-aborted":        {provoke: cancelBetween},
		"cancel-seen":        {provoke: cancelWithin},
		"log-to-compact":     {},
		"log-compacted":      {},

		"archive-object-synced":   {archive: true},
		"archive-object-written":  {archive: true},
		"archive-object-verified": {archive: true, quick: true},
		"archive-object-removed":  {archive: true, provoke: dropRuns, quick: true},

		"wave-start-due":         {provoke: driveWave("due")},
		"wave-start-committed":   {provoke: driveWave("started")},
		"wave-refusal-due":       {provoke: driveWave("refused")},
		"wave-refusal-committed": {provoke: driveWave("noted")},

		"login-begun":    {bmc: true},
		"session-made":   {bmc: true},
		"session-noted":  {bmc: true},
		"medium-leaving": {bmc: true},
		"medium-out":     {bmc: true},

		"stage-to-read":     {restore: true, stops: true, quick: true},
		"stage-read":        {restore: true},
		"restore-committed": {restore: true},

		"command-to-apply": {},
		"commands-applied": {quick: true},
	}
}

// handOver makes the leader stop on purpose, and start again.
func handOver(ctx context.Context, l *lab.Lab) error {
	leader, err := l.Leader(ctx)
	if err != nil {
		return err
	}
	return l.Hold(leader, func() error {
		_ = leader.Stop(ctx) // it may be the one that dies
		return leader.Start(ctx)
	})
}

// wipe deletes the data of a follower.
func wipe(ctx context.Context, l *lab.Lab) error {
	p, err := l.Follower(ctx)
	if err != nil {
		return err
	}
	return l.Hold(p, func() error { return replace(ctx, p) })
}

func replace(ctx context.Context, p *localcluster.Peer) error {
	if err := p.Kill(); err != nil {
		return err
	}
	if err := p.Wipe(); err != nil {
		return err
	}
	return p.Start(ctx)
}

// remove removes a stopped follower as an operator does. If the leader dies meanwhile, the next one
// finishes the removal. The follower is admitted and comes back.
func remove(ctx context.Context, l *lab.Lab) error {
	p, err := l.Follower(ctx)
	if err != nil {
		return err
	}
	return l.Hold(p, func() error {
		if err := p.Kill(); err != nil {
			return err
		}
		status := func() *holdfastv1.Peer {
			st, err := l.Client.Cluster().GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
			i := slices.IndexFunc(st.GetPeers(), func(q *holdfastv1.Peer) bool { return q.GetId() == p.ID })
			if err != nil || i < 0 {
				return nil
			}
			return st.GetPeers()[i]
		}
		if err := lab.Until(ctx, "the removal of "+p.ID, func() bool {
			_, _ = l.Client.Operator().RemovePeer(ctx, &holdfastv1.RemovePeerRequest{Id: p.ID, Force: true})
			q := status()
			return q == nil || q.GetSuffrage() == "none"
		}); err != nil {
			return err
		}
		if err := lab.Until(ctx, "the admission of "+p.ID, func() bool {
			_, err := l.Client.Operator().AdmitPeer(ctx, &holdfastv1.AdmitPeerRequest{Id: p.ID})
			return err == nil
		}); err != nil {
			return err
		}
		if err := p.Wipe(); err != nil {
			return err
		}
		return p.Start(ctx)
	})
}

// leave removes a stopped follower from the cluster. If the leader dies meanwhile, the next
// one finishes the removal. Then the follower comes back.
func leave(ctx context.Context, l *lab.Lab) error {
	p, err := l.Follower(ctx)
	if err != nil {
		return err
	}
	return l.Hold(p, func() error {
		if err := p.Kill(); err != nil {
			return err
		}
		// The next leader does not know that the peer was to leave, and would admit it
		// again if gossip considers it alive.
		if err := lab.Until(ctx, "gossip to see that "+p.ID+" has gone", func() bool {
			st, err := l.Client.Cluster().GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
			return err == nil && slices.ContainsFunc(st.GetPeers(),
				func(q *holdfastv1.Peer) bool { return q.GetId() == p.ID && !q.GetAlive() })
		}); err != nil {
			return err
		}
		// The next leader finds the record of a peer that is no server, unless it is first
		// asked to remove that peer.
		removed := func() (n int) {
			for _, other := range l.Peers() {
				if other != p {
					log := other.LogTail(1 << 20)
					n += strings.Count(log, "record of removed peer deleted") + strings.Count(log, `"peer has left"`)
				}
			}
			return n
		}
		before, removedBefore := l.Deaths(), removed()
		if err := lab.Until(ctx, "a leader to die while it removes "+p.ID, func() bool {
			askToLeave(ctx, l, p)
			return l.Deaths() > before
		}); err != nil {
			return err
		}
		// The dying leader may have deleted the record without a log line: another pass of its
		// reconciler also sees that the peer is no server. A repeated request is logged in any
		// case.
		asked := time.Now()
		if err := lab.Until(ctx, "the record of "+p.ID+" to be removed", func() bool {
			if time.Since(asked) > 10*time.Second {
				asked = time.Now()
				askToLeave(ctx, l, p)
			}
			return removed() > removedBefore
		}); err != nil {
			return err
		}
		return p.Start(ctx)
	})
}

// askToLeave requests the current leader to remove a peer from the cluster. The leader may
// change meanwhile.
func askToLeave(ctx context.Context, l *lab.Lab, p *localcluster.Peer) {
	ctx, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	leader, err := l.Leader(ctx)
	if err != nil {
		return
	}
	// A peer leaves with its own credentials.
	conn, err := grpc.NewClient("passthrough:///"+leader.GRPCAddr, grpc.WithTransportCredentials(l.PeerCredentials(p)))
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = internalv1.NewPeerServiceClient(conn).Leave(ctx, &internalv1.LeaveRequest{PeerId: p.ID})
}

// dropRuns restarts all peers with an archive that keeps runs only for a moment.
func dropRuns(ctx context.Context, l *lab.Lab) error {
	for _, p := range l.Peers() {
		if err := l.Hold(p, func() error {
			if err := p.Kill(); err != nil {
				return err
			}
			p.Add("--archive-keep", "2s")
			return p.Start(ctx)
		}); err != nil {
			return err
		}
		if err := l.Steady(ctx); err != nil {
			return err
		}
	}
	return nil
}

package fsm

import (
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func (t *tx) leaderEstablished(c *internalv1.LeaderEstablished) *Error {
	if c.GetTerm() < t.meta.GetEpoch() {
		return refuse(Aborted, ReasonStaleEpoch, "leader of term %d refused: the epoch is %d",
			c.GetTerm(), t.meta.GetEpoch())
	}
	t.meta.Epoch, t.meta.Leader = c.GetTerm(), c.GetPeerId()
	t.clearStage()
	return nil
}

func (t *tx) initCluster(c *internalv1.InitCluster) *Error {
	if id := t.meta.GetClusterId(); id != "" {
		return refuse(AlreadyExists, "CLUSTER_EXISTS", "the cluster already has the id %s", id)
	}
	t.meta.ClusterId = c.GetClusterId()
	if t.meta.GetLastNews() == 0 {
		// A watcher of an empty cluster needs a cursor to resume from, and zero would mean
		// "from now on".
		t.meta.LastNews, t.meta.FirstNews = 1, 2
	}
	return nil
}

func (t *tx) raiseFeatureLevel(c *internalv1.RaiseFeatureLevel) *Error {
	t.meta.FeatureLevel = max(t.meta.GetFeatureLevel(), c.GetLevel())
	return nil
}

func (t *tx) putPeer(c *internalv1.PutPeer) *Error {
	if c.GetPeer().GetId() == "" {
		return invalid("peer.id", "is required")
	}
	if l, have := t.meta.GetFeatureLevel(), c.GetPeer().GetMaxFeatureLevel(); have < l {
		return refuse(FailedPrecondition, "PEER_TOO_OLD",
			"peer %s refused: it understands feature level %d, the cluster uses %d; upgrade it",
			c.GetPeer().GetId(), have, l)
	}
	t.peers.Put(c.GetPeer())
	return nil
}

func (t *tx) removePeer(c *internalv1.RemovePeer) *Error {
	t.peers.Delete(c.GetId())
	return nil
}

// Peers returns the record of every peer, by id.
func (v *View) Peers() []*internalv1.PeerRecord {
	var ps []*internalv1.PeerRecord
	for p := range v.peers.Ascend("", "") {
		ps = append(ps, p)
	}
	return ps
}

// Peer returns the record of a peer.
func (v *View) Peer(id string) (*internalv1.PeerRecord, bool) { return v.peers.Get(id) }

// minDeadServer is the shortest time after which a peer may count as permanently gone, in
// milliseconds. A reboot of its host must not count.
const minDeadServer = 60_000

// setAutopilot replaces the rules by which leaders change the membership automatically.
func (t *tx) setAutopilot(c *internalv1.SetAutopilot) *Error {
	a := c.GetConfig()
	switch {
	case a == nil:
		return invalid("config", "is required")
	case a.GetDeadServerMs() != 0 && a.GetDeadServerMs() < minDeadServer:
		return invalid("config.dead_server_threshold",
			"is %d ms, at least %d ms are wanted: a reboot is no reason", a.GetDeadServerMs(), minDeadServer)
	case a.GetStabilizationMs() < 0 || a.GetDeadServerMs() < 0:
		return invalid("config", "has a time below zero")
	case a.GetMinQuorum() == 1 || a.GetMinQuorum() == 2:
		return invalid("config.min_quorum", "is %d: with fewer than three voters none may fail", a.GetMinQuorum())
	}
	t.meta.Autopilot = a
	return nil
}

// Recover turns the state of a peer that has lost its majority into the beginning of another
// cluster, and returns the runs it ended. The cluster gets a new id, so that returning old
// peers are not part of it. Active runs fail, because progress that the lost peers
// acknowledged may not be recorded here. Call it on a peer that is not running; it bypasses
// the log.
func (f *FSM) Recover(clusterID, why string) ([]*holdfastv1.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.haltErr != nil {
		return nil, f.haltErr
	}
	t := newTx(f.state, f.own, f.decoded, f.state.meta.GetAppliedIndex(),
		&internalv1.Command{Time: f.state.meta.GetNow(), Principal: "system"})
	t.moveCursors()
	ended := t.activeRuns()
	for _, run := range ended {
		t.closeSteps(run, why)
		t.finishRun(run, holdfastv1.Run_FAILED,
			&holdfastv1.RunError{Reason: reasonRecovered, Message: why, Step: run.GetCurrentStep()})
	}
	t.clearStage()
	t.meta.ClusterId = clusterID
	f.publish()
	return ended, nil
}

// recoverGap separates the cursors of the lost peers from those of the recovered cluster. No
// peer has recorded that many events more than this one.
const recoverGap = 1 << 32

// moveCursors renumbers events. A cursor issued by a lost peer is then always refused, and
// never taken for a position in the recovered cluster. Webhooks move along, so that they
// still deliver pending events.
func (t *tx) moveCursors() {
	m := t.meta
	for e := range collected(t.events) {
		t.events.Delete(schema.Ordered(e.GetCursor()))
		e.Cursor += recoverGap
		t.events.Put(e)
	}
	for e := range collected(t.serviceEvents) {
		t.serviceEvents.Delete(schema.Ordered(e.GetCursor()))
		e.Cursor += recoverGap
		t.serviceEvents.Put(e)
	}
	for e := range collected(t.news) {
		t.news.Delete(schema.Ordered(e.GetCursor()))
		e.Cursor += recoverGap
		t.news.Put(e)
	}
	for w := range collected(t.webhooks) {
		w.Cursor += recoverGap
		t.webhooks.Put(w)
	}
	m.LastEvent, m.FirstEvent = m.GetLastEvent()+recoverGap, max(1, m.GetFirstEvent())+recoverGap
	m.LastServiceEvent, m.FirstServiceEvent = m.GetLastServiceEvent()+recoverGap,
		max(1, m.GetFirstServiceEvent())+recoverGap
	m.LastNews, m.FirstNews = m.GetLastNews()+recoverGap, max(1, m.GetFirstNews())+recoverGap
}

// collected returns the rows of a table, which may be changed during the iteration.
func collected[P proto.Message](t *table.Table[P]) iter.Seq[P] {
	return slices.Values(slices.Collect(t.Ascend("", "")))
}

// noteBackup records the time of a saved snapshot. The newest one counts, but never a time in
// the future: one wrong clock would otherwise suppress the alert on missing backups for
// years.
func (t *tx) noteBackup(c *internalv1.NoteBackup) *Error {
	if c.GetSaved() == nil {
		return nil
	}
	if err := c.GetSaved().CheckValid(); err != nil {
		return invalid("saved_at", "%s", err)
	}
	if at := earlier(c.GetSaved(), t.now); at.AsTime().After(t.meta.GetLastBackup().AsTime()) {
		t.meta.LastBackup = at
	}
	return nil
}

// earlier returns a copy of the earlier time.
func earlier(a, b *timestamppb.Timestamp) *timestamppb.Timestamp {
	if b.AsTime().Before(a.AsTime()) {
		a = b
	}
	return proto.CloneOf(a)
}

const (
	// maxAhead is how far a leader's wall clock may be ahead of the record and still be
	// followed at once.
	maxAhead = 10 * time.Minute
	// believeAfter is the time after which a wall clock that stayed equally far ahead is
	// followed. It is probably right, and the cluster was down.
	believeAfter = 15 * time.Minute
)

// tick advances the record's clock by one command. The clock never goes back.
func (s *state) tick(c *internalv1.Command) {
	at, now := c.GetTime().AsTime(), s.meta.GetNow().AsTime()
	switch {
	case s.meta.GetFeatureLevel() >= Level2 && c.GetUptimeMs() > 0:
		s.tickBounded(c, at, now)
	case at.After(now):
		s.meta.Now = timestamppb.New(at)
	}
}

// tickBounded prevents one wrong wall clock from moving the record far. Time passes at the
// pace of leaders' monotonic clocks. While the wall clock is behind, it passes at half that
// pace, so that the wall clock catches up.
func (s *state) tickBounded(c *internalv1.Command, at, now time.Time) {
	k := s.meta.GetClock()
	if k == nil {
		k = &internalv1.Clock{}
		s.meta.Clock = k
	}
	var passed time.Duration
	// A new leader has another monotonic clock.
	epoch := max(s.meta.GetEpoch(), c.GetLeaderEstablished().GetTerm())
	if k.GetEpoch() == epoch {
		passed = time.Duration(max(0, c.GetUptimeMs()-k.GetUptimeMs())) * time.Millisecond
		k.UptimeMs = max(k.GetUptimeMs(), c.GetUptimeMs())
	} else {
		k.Epoch, k.UptimeMs = epoch, c.GetUptimeMs()
	}
	next := now.Add(passed)
	switch ahead := at.Sub(next); {
	case at.Before(now):
		next = now.Add(passed / 2)
		k.AheadMs, k.HeldMs, k.Leader = 0, 0, ""
	case ahead <= maxAhead || s.believed(k, ahead, passed):
		next = at
		k.AheadMs, k.HeldMs, k.Leader = 0, 0, ""
	}
	s.meta.Now = timestamppb.New(next)
}

// believed reports whether a wall clock far ahead is probably right, and records the
// observation.
func (s *state) believed(k *internalv1.Clock, ahead, passed time.Duration) bool {
	if had := time.Duration(k.GetAheadMs()) * time.Millisecond; had == 0 || (ahead-had).Abs() > maxAhead {
		k.AheadMs, k.HeldMs, k.Leader = ahead.Milliseconds(), 0, s.meta.GetLeader()
		return false
	}
	k.HeldMs += passed.Milliseconds()
	return k.GetHeldMs() >= believeAfter.Milliseconds() || s.meta.GetLeader() != k.GetLeader()
}

// resetClock sets the record's clock to the right time. No other command may set it back.
func (t *tx) resetClock(c *internalv1.ResetClock) *Error {
	if !c.GetTo().IsValid() || c.GetTo().AsTime().Unix() <= 0 {
		return invalid("to", "is not a time")
	}
	t.meta.Now, t.now = c.GetTo(), proto.CloneOf(c.GetTo())
	if k := t.meta.GetClock(); k != nil {
		k.AheadMs, k.HeldMs, k.Leader = 0, 0, ""
	}
	return nil
}

// Now returns the record's clock.
func (v *View) Now() time.Time { return v.meta.GetNow().AsTime() }

// ClockAhead returns how far the leader's wall clock is ahead of the record's if it is not
// followed, else 0.
func (v *View) ClockAhead() time.Duration {
	return time.Duration(v.meta.GetClock().GetAheadMs()) * time.Millisecond
}

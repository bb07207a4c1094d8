package core

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	// MaxAhead is how far a leader's wall clock may be ahead of the record and still be
	// followed at once.
	MaxAhead = 10 * time.Minute
	// believeAfter is the time after which a wall clock that stayed equally far ahead is
	// followed. It is probably right, and the cluster was down.
	believeAfter = 15 * time.Minute
)

// tick advances the record's clock by one command. The clock never goes back.
func (s *State) tick(c *internalv1.Command) {
	at, now := c.GetTime().AsTime(), s.Meta.GetNow().AsTime()
	switch {
	case c.GetUptimeMs() > 0:
		s.tickBounded(c, at, now)
	case at.After(now):
		s.Meta.Now = timestamppb.New(at)
	}
}

// tickBounded prevents one wrong wall clock from moving the record far. Time passes at the
// pace of leaders' monotonic clocks. While the wall clock is behind, it passes at half that
// pace, so that the wall clock catches up.
func (s *State) tickBounded(c *internalv1.Command, at, now time.Time) {
	k := s.Meta.GetClock()
	if k == nil {
		k = &internalv1.Clock{}
		s.Meta.Clock = k
	}
	var passed time.Duration
	// A new leader has another monotonic clock.
	epoch := max(s.Meta.GetEpoch(), c.GetLeaderEstablished().GetTerm())
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
	case ahead <= MaxAhead || s.believed(k, ahead, passed):
		next = at
		k.AheadMs, k.HeldMs, k.Leader = 0, 0, ""
	}
	s.Meta.Now = timestamppb.New(next)
}

// believed reports whether a wall clock far ahead is probably right, and records the
// observation.
func (s *State) believed(k *internalv1.Clock, ahead, passed time.Duration) bool {
	if had := time.Duration(k.GetAheadMs()) * time.Millisecond; had == 0 || (ahead-had).Abs() > MaxAhead {
		k.AheadMs, k.HeldMs, k.Leader = ahead.Milliseconds(), 0, s.Meta.GetLeader()
		return false
	}
	k.HeldMs += passed.Milliseconds()
	return k.GetHeldMs() >= believeAfter.Milliseconds() || s.Meta.GetLeader() != k.GetLeader()
}

package fsm

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

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

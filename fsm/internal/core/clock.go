package core

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	// MaxAhead is how far wall clocks of leaders may move the record in all until a majority of
	// the peers' clocks confirms the time.
	MaxAhead = 10 * time.Minute
	// ClocksAgree is the largest difference of clocks that agree.
	ClocksAgree = time.Minute
	// believeAlone is the time after which the clock of a cluster's only voter counts as confirmed
	// if it stayed equally far from the record, by ClocksAgree. There is no other clock.
	believeAlone = 15 * time.Minute
)

// tick advances the record's clock by one command. The clock never goes back. A command without
// a monotonic clock, which no peer proposes, moves it to its time.
func (s *State) tick(c *internalv1.Command) {
	at, now := c.GetTime().AsTime(), s.Meta.GetNow().AsTime()
	switch {
	case c.GetUptimeMs() > 0:
		s.tickBounded(c, at, now)
	case at.After(now):
		s.Meta.Now = timestamppb.New(at)
	}
}

// clock returns the state of the record's clock.
func (s *State) clock() *internalv1.Clock {
	if s.Meta.GetClock() == nil {
		s.Meta.Clock = &internalv1.Clock{}
	}
	return s.Meta.GetClock()
}

// tickBounded lets time pass at the pace of leaders' monotonic clocks. A leader's wall clock that
// is ahead may move the record too, but all of them together by at most MaxAhead until a majority
// of clocks confirms the time: otherwise a wrong clock adds up, in small steps or over leaders.
// If the wall clock is behind, time passes at half the pace.
func (s *State) tickBounded(c *internalv1.Command, at, now time.Time) {
	k := s.clock()
	var passed time.Duration
	// A new leader has another monotonic clock.
	epoch := max(s.Meta.GetEpoch(), c.GetLeaderEstablished().GetTerm())
	if k.GetEpoch() == epoch {
		passed = millis(max(0, c.GetUptimeMs()-k.GetUptimeMs()))
		k.UptimeMs = max(k.GetUptimeMs(), c.GetUptimeMs())
	} else {
		k.Epoch, k.UptimeMs = epoch, c.GetUptimeMs()
	}
	if s.Meta.GetNow() == nil { // the first command: its time counts until clocks are compared
		s.Meta.Now = timestamppb.New(at)
		return
	}
	next, ahead := now.Add(passed), at.Sub(now.Add(passed))
	k.AheadMs = 0
	switch {
	case at.Before(now):
		next = now.Add(passed / 2)
		k.MovedMs = max(0, k.GetMovedMs()-(passed/2).Milliseconds())
	case ahead <= 0: // it has caught up
		next = at
		k.MovedMs = max(0, k.GetMovedMs()+ahead.Milliseconds())
	case ahead <= MaxAhead-millis(k.GetMovedMs()):
		next = at
		k.MovedMs += (ahead + time.Millisecond - 1).Milliseconds()
	default:
		k.AheadMs = ahead.Milliseconds()
	}
	s.Meta.Now = timestamppb.New(next)
}

// Compare sets the record's clock by the clocks of peers that a leader has read. It reports
// whether a majority of the voters agrees. If the record is behind them, it follows. If it is
// ahead, it waits for them: only the first comparison of a new state sets it back.
func (t *Tx) Compare(c *internalv1.CompareClocks) bool {
	most, ok := Agreed(c, t.Command.GetUptimeMs())
	if !ok {
		return false
	}
	k, now := t.clock(), t.Meta.GetNow().AsTime()
	ahead := most.Sub(now)
	if c.GetVoters() == 1 && k.GetCompared() && !t.held(k, ahead) {
		return true // no other clock confirms it: commands still move the record by MaxAhead
	}
	if ahead > 0 || !k.GetCompared() {
		t.setNow(most)
		k.MovedMs = 0
	} else {
		k.MovedMs = min(-ahead, MaxAhead).Milliseconds()
	}
	k.Compared, k.HeldMs, k.HeldUptimeMs = true, 0, 0
	return true
}

// held reports whether the clock of the only voter has been equally far from the record for long
// enough.
func (t *Tx) held(k *internalv1.Clock, ahead time.Duration) bool {
	up := t.Command.GetUptimeMs()
	if k.GetHeldUptimeMs() == 0 || k.GetHeldEpoch() != k.GetEpoch() || (ahead-millis(k.GetHeldMs())).Abs() > ClocksAgree {
		k.HeldMs, k.HeldUptimeMs, k.HeldEpoch = ahead.Milliseconds(), up, k.GetEpoch()
	}
	return millis(up-k.GetHeldUptimeMs()) >= believeAlone
}

// setNow sets the record's clock, and the time of this command.
func (t *Tx) setNow(at time.Time) {
	t.Meta.Now = timestamppb.New(at)
	t.Now = timestamppb.New(at)
}

// ResetClock sets the record's clock to a time that an operator has confirmed.
func (t *Tx) ResetClock(to time.Time) {
	t.setNow(to)
	k := t.clock()
	k.AheadMs, k.MovedMs, k.HeldMs, k.HeldUptimeMs, k.Compared = 0, 0, 0, 0, true
}

// Agreed returns the earliest of the clocks that agree with each other, by ClocksAgree, if they
// are a majority of the voters. uptime is the
// leader's monotonic clock now.
func Agreed(c *internalv1.CompareClocks, uptime int64) (time.Time, bool) {
	var all []time.Time
	seen := map[string]bool{}
	for _, r := range c.GetReadings() {
		since := uptime - r.GetUptimeMs()
		if seen[r.GetPeerId()] || !r.GetAt().IsValid() || since < 0 {
			continue
		}
		seen[r.GetPeerId()] = true
		all = append(all, r.GetAt().AsTime().Add(millis(since)))
	}
	slices.SortFunc(all, time.Time.Compare)
	most := int(c.GetVoters())/2 + 1
	for i := 0; c.GetVoters() > 0 && i+most <= len(all); i++ {
		if all[i+most-1].Sub(all[i]) <= ClocksAgree {
			return all[i], true
		}
	}
	return time.Time{}, false
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

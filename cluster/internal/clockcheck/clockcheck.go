// Package clockcheck compares the wall clocks of the voters, warns of a wrong one, and commits the
// comparison on the leader. It must not set a clock of a host.
package clockcheck

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/clock"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	clocksFirst = clocksEvery / 20
	clocksEvery = 5 * time.Second
	// recordOff is the difference between the recorded time and the majority's clocks from which
	// the leader commits a comparison.
	recordOff = time.Second
	// compareEvery is the longest time between two comparisons in one term. A new leader then finds
	// the recorded clock close to the time, also of an idle cluster.
	compareEvery = 4 * time.Minute
	// answerTimeout bounds a request for the clock of one peer.
	answerTimeout = 500 * time.Millisecond
	// clockWords begins each warning about a clock.
	clockWords = "clock: "
)

// Config holds what the comparison depends on.
type Config struct {
	Self  string
	Clock *clock.Clock // is set to the majority's; may be nil
	// Voters returns the other voters, and whether this peer is one.
	Voters func() (others []string, self bool)
	// Leads returns the term in which this peer leads and is ready.
	Leads func() (term uint64, ok bool)
	// Stats returns the statistics that a peer reports.
	Stats func(ctx context.Context, id string) (*internalv1.StatsResponse, error)
	View  func() *fsm.View
	// Uptime returns this process's monotonic clock in milliseconds, for a command.
	Uptime func() int64
	Commit func(ctx context.Context, cmd *internalv1.Command) error
	Scale  func(time.Duration) time.Duration
	Logger *slog.Logger
}

// Check compares the wall clocks of the voters. Every peer reports whether its own is right, and
// the leader commits what it read, because the recorded clock believes only a majority.
type Check struct {
	cfg     Config
	offset  atomic.Int64           // how far this peer's clock is ahead of the majority's, in nanoseconds
	warning atomic.Pointer[string] // of the last pass; nil: none
	term    uint64                 // of the last committed comparison
	at      time.Time              // when it was committed
}

// New returns a comparison. Run compares.
func New(cfg Config) *Check { return &Check{cfg: cfg} }

// Offset returns how far this peer's clock is ahead of the majority's.
func (c *Check) Offset() time.Duration { return time.Duration(c.offset.Load()) }

// Warning returns a warning about this peer's clock, or "".
func (c *Check) Warning() string {
	if w := c.warning.Load(); w != nil {
		return *w
	}
	return ""
}

// Run compares the clocks until ctx ends.
func (c *Check) Run(ctx context.Context) error {
	// A process that has just started is asked at once whether a token has expired.
	pause := c.cfg.Scale(clocksFirst)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			c.pass(ctx)
			pause = min(2*pause, c.cfg.Scale(clocksEvery))
			timer.Reset(pause)
		case <-ctx.Done():
			return nil
		}
	}
}

// pass reads the clocks once, reports a wrong one, and commits the comparison if it is due.
func (c *Check) pass(ctx context.Context) {
	cmd := c.read(ctx)
	if cmd.GetVoters() == 0 {
		return
	}
	now := c.cfg.Uptime()
	most, ok := fsm.AgreedTime(cmd, now)
	warning, agreed := judge(cmd, most, ok, time.Now(), c.cfg.Self), most
	off := -time.Until(most)
	if record := c.recorded(now); ok && cmd.GetVoters() == 1 && unconfirmed(most, record) {
		off = most.Sub(record)
		warning, agreed = alone(off), record
	}
	c.report(ctx, warning)
	if ok {
		c.offset.Store(int64(off))
		c.cfg.Clock.Agree(agreed)
	}
	if term, leads := c.cfg.Leads(); leads && (!ok || c.due(term, most, now)) {
		err := c.cfg.Commit(ctx, &internalv1.Command{
			Epoch: term, Op: &internalv1.Command_CompareClocks{CompareClocks: cmd},
		})
		if refused, is := errors.AsType[*fsm.Error](err); is && refused.Reason == fsm.ReasonClocksDiffer {
			return // every peer has a warning
		}
		if err != nil && ctx.Err() == nil {
			c.cfg.Logger.Debug("comparison of the clocks not committed, will retry", "error", err)
			return
		}
		c.term, c.at = term, time.Now()
	}
}

// due reports whether the leader of a term should commit a comparison now.
func (c *Check) due(term uint64, most time.Time, uptime int64) bool {
	record := c.recorded(uptime)
	return c.term != term || most.Sub(record).Abs() > recordOff || time.Since(c.at) >= compareEvery
}

// recorded returns the recorded clock, with the time that has passed since the last command of this
// leader; the zero time before the first command.
func (c *Check) recorded(uptime int64) time.Time {
	v := c.cfg.View()
	at := v.Now()
	if at.IsZero() {
		return at
	}
	if term, leads := c.cfg.Leads(); leads && v.Meta().GetClock().GetEpoch() == term {
		at = at.Add(time.Duration(uptime-v.Meta().GetClock().GetUptimeMs()) * time.Millisecond)
	}
	return at
}

// unconfirmed reports whether the clock of the only voter is too far ahead of the recorded one to
// be followed. A state without a command has no recorded clock.
func unconfirmed(only, recorded time.Time) bool {
	return !recorded.IsZero() && only.Sub(recorded) > fsm.MaxClockMove
}

// alone returns the warning about the clock of the only voter, which no other clock confirms.
func alone(ahead time.Duration) string {
	return fmt.Sprintf("%sit is %s the recorded time, and no other peer confirms it: if it is wrong, correct the time of "+
		"this host; if this peer did not run for as long, it is right; if it stays so, it is "+
		"followed after some minutes, and tokens and retention count by it", clockWords, apart(ahead, "ahead of", "behind"))
}

// read returns the clocks of the voters that answer.
func (c *Check) read(ctx context.Context) *internalv1.CompareClocks {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	others, self := c.cfg.Voters()
	cmd := &internalv1.CompareClocks{Voters: uint32(len(others))}
	if self {
		cmd.Voters++
		cmd.Readings = []*internalv1.ClockReading{
			{PeerId: c.cfg.Self, At: timestamppb.Now(), UptimeMs: c.cfg.Uptime()},
		}
	}
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)
	for _, id := range others {
		wg.Go(func() {
			began := c.cfg.Uptime()
			st, err := c.cfg.Stats(ctx, id)
			if err != nil || st.GetClockMs() == 0 {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			cmd.Readings = append(cmd.Readings, &internalv1.ClockReading{
				PeerId: id, At: timestamppb.New(time.UnixMilli(st.GetClockMs())),
				UptimeMs: (began + c.cfg.Uptime()) / 2,
			})
		})
	}
	wg.Wait()
	return cmd
}

// judge returns a warning about this peer's clock, or "". Without a majority that agrees it names
// all clocks, unless too few peers answer.
func judge(cmd *internalv1.CompareClocks, most time.Time, agree bool, now time.Time, self string) string {
	if agree {
		if off := now.Sub(most); off.Abs() > fsm.ClocksAgree {
			return fmt.Sprintf("%sit is %s a majority of the peers' clocks and is ignored: "+
				"correct the time of this host and its synchronization", clockWords, apart(off, "ahead of", "behind"))
		}
		return ""
	}
	if len(cmd.GetReadings()) <= int(cmd.GetVoters())/2 {
		return ""
	}
	var all []string
	var own *internalv1.ClockReading
	for _, r := range cmd.GetReadings() {
		if r.GetPeerId() == self {
			own = r
		}
	}
	for _, r := range cmd.GetReadings() {
		if own == nil || r == own {
			continue
		}
		off := r.GetAt().AsTime().Sub(own.GetAt().AsTime()) -
			time.Duration(r.GetUptimeMs()-own.GetUptimeMs())*time.Millisecond
		all = append(all, fmt.Sprintf("that of %s is %s this one", r.GetPeerId(), apart(off, "ahead of", "behind")))
	}
	return clockWords + "no majority of the peers' clocks agrees: " + strings.Join(all, ", ") +
		": correct the time of these hosts and its synchronization"
}

// apart returns a difference in words.
func apart(d time.Duration, ahead, behind string) string {
	if d < 0 {
		return (-d).Round(time.Second).String() + " " + behind
	}
	return d.Round(time.Second).String() + " " + ahead
}

// report keeps a warning for the status of this peer, and logs it when it begins and ends.
func (c *Check) report(_ context.Context, warning string) {
	had := c.warning.Load()
	switch {
	case warning == "" && had != nil:
		c.cfg.Logger.Info("clock of this peer is right again")
		c.warning.Store(nil)
	case warning != "":
		if had == nil {
			c.cfg.Logger.Warn("clocks of the peers differ", "problem", strings.TrimPrefix(warning, clockWords))
		}
		c.warning.Store(&warning)
	}
}

package cluster

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/clock"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestJudge checks that a peer has a warning if and only if its clock differs from a majority's, or
// no majority agrees.
func TestJudge(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, tt := range []struct {
		name string
		off  []time.Duration // of p0, which judges, and the others that answer
		want string
	}{
		{"all agree", []time.Duration{0, time.Second, -time.Second}, ""},
		{"this one is ahead", []time.Duration{time.Hour, 0, 0}, "1h0m0s ahead of a majority"},
		{"this one is behind", []time.Duration{-time.Hour, 0, 0}, "1h0m0s behind a majority"},
		{"another is ahead", []time.Duration{0, 0, time.Hour}, ""},
		{"all differ", []time.Duration{0, time.Hour, -time.Hour}, "that of p1 is 1h0m0s ahead of this one"},
		{"too few answer", []time.Duration{0}, ""},
		{"two of three answer and differ", []time.Duration{0, 8 * time.Hour}, "no majority"},
	} {
		c := &internalv1.CompareClocks{Voters: 3}
		for i, d := range tt.off {
			c.Readings = append(c.Readings, &internalv1.ClockReading{
				PeerId: string([]byte{'p', byte('0' + i)}), At: timestamppb.New(now.Add(d)), UptimeMs: 5})
		}
		most, ok := fsm.AgreedTime(c, 5)
		got := judge(c, most, ok, now.Add(tt.off[0]), "p0")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q in it", tt.name, got, tt.want)
		}
	}
}

// TestAlone checks the warning about the clock of the only voter.
func TestAlone(t *testing.T) {
	got := alone(365 * 24 * time.Hour)
	if !strings.HasPrefix(got, clockWords) || !strings.Contains(got, "8760h0m0s ahead of the recorded time") {
		t.Errorf("got %q", got)
	}
}

// TestUnconfirmed checks that the clock of the only voter is in doubt only if another time is
// recorded. A peer compares its clock for the first time before it or after it has applied a
// command.
func TestUnconfirmed(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name     string
		recorded time.Time
		want     bool
	}{
		{"a new state", fsm.New().View().Now(), false},
		{"the time", now, false},
		{"some minutes earlier", now.Add(-fsm.MaxClockMove), false},
		{"an hour earlier", now.Add(-time.Hour), true},
		{"an hour later", now.Add(time.Hour), false},
	} {
		if got := unconfirmed(now, tt.recorded); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestClockOfPeer checks that a wrong clock of the host moves the cluster's time neither before nor
// after the clocks were compared, and that this time passes.
func TestClockOfPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name             string
			recorded, agreed time.Duration // compared with the host's clock
			compared         bool
			want             time.Duration
		}{
			{"just started", -time.Minute, 0, false, 0},
			{"just started, host far ahead", -365 * 24 * time.Hour, 0, false, -365 * 24 * time.Hour},
			{"just started, host far behind", time.Hour, 0, false, time.Hour},
			{"compared, host far ahead", -365 * 24 * time.Hour, -366 * 24 * time.Hour, true, -366 * 24 * time.Hour},
			{"compared, host behind", 0, time.Minute, true, time.Minute},
		} {
			begin := time.Now()
			c := clock.New(func() time.Time { return begin.Add(tt.recorded) })
			if tt.compared {
				c.Agree(begin.Add(tt.agreed))
				time.Sleep(time.Hour) // sleep: in a synctest bubble
				tt.want += time.Hour
			}
			if got := c.Now().Sub(begin); got != tt.want {
				t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
			}
		}
	})
	if got := clock.New(func() time.Time { return fsm.New().View().Now() }).Now(); time.Since(got).Abs() > time.Minute {
		t.Errorf("nothing is recorded: got %v, want the host's clock", got)
	}
}

// TestDoubtful checks when a peer cannot judge whether a credential has expired.
func TestDoubtful(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		for _, tt := range []struct {
			name          string
			recorded, set time.Duration // compared with the host's clock; set: when it agreed with the others
			want          bool
		}{
			{"just started", -time.Second, 0, false},
			{"down for a day", -day, 0, true},
			{"down for some minutes", -5 * time.Minute, 0, true},
			{"host behind", day, 0, true},
			{"compared, record behind", -day, time.Second, false},
			{"compared, host ahead since it started", 0, day, false},
		} {
			begin := time.Now()
			c := clock.New(func() time.Time { return begin.Add(tt.recorded) })
			if tt.set > 0 {
				c.Agree(begin.Add(-tt.set))
				time.Sleep(time.Hour) // sleep: in a synctest bubble
			}
			if got := c.Doubtful(); got != tt.want {
				t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
			}
		}
		if clock.New(func() time.Time { return time.Time{} }).Doubtful() || (*clock.Clock)(nil).Doubtful() {
			t.Error("got a doubt without another clock")
		}
	})
}

// TestLatest checks the latest time that it may be: the host's clock counts unless clocks that
// agree have shown within a minute that it is ahead.
func TestLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const days = 24 * time.Hour
		for _, tt := range []struct {
			name             string
			recorded, agreed time.Duration // compared with the host's clock
			ago              time.Duration // since the clocks agreed; 0: never
			want             time.Duration
		}{
			{"down for a week", -7 * days, 0, 0, 0},
			{"host behind", 7 * days, 0, 0, 7 * days},
			{"host ahead, as clocks show that agree", 0, -7 * days, time.Second, -7 * days},
			{"paused for a week, and the monotonic clock stood still", 0, -7 * days, time.Hour, 0},
			{"host behind, and no recent agreement", 0, 7 * days, time.Hour, 7 * days},
		} {
			begin := time.Now()
			c := clock.New(func() time.Time { return begin.Add(tt.recorded) })
			if tt.ago > 0 {
				c.Agree(begin.Add(tt.agreed))
				time.Sleep(tt.ago) // sleep: in a synctest bubble
			}
			if got := time.Until(c.Latest()); got != tt.want {
				t.Errorf("%s: got %v from the host's clock, want %v", tt.name, got, tt.want)
			}
		}
	})
	if got := (*clock.Clock)(nil).Latest(); time.Since(got).Abs() > time.Minute {
		t.Errorf("without a clock: got %v, want the host's", got)
	}
}

package clock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
)

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
			c := New(func() time.Time { return begin.Add(tt.recorded) })
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
	if got := New(func() time.Time { return fsm.New().View().Now() }).Now(); time.Since(got).Abs() > time.Minute {
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
			c := New(func() time.Time { return begin.Add(tt.recorded) })
			if tt.set > 0 {
				c.Agree(begin.Add(-tt.set))
				time.Sleep(time.Hour) // sleep: in a synctest bubble
			}
			if got := c.Doubtful(); got != tt.want {
				t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
			}
		}
		if New(func() time.Time { return time.Time{} }).Doubtful() || (*Clock)(nil).Doubtful() {
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
			c := New(func() time.Time { return begin.Add(tt.recorded) })
			if tt.ago > 0 {
				c.Agree(begin.Add(tt.agreed))
				time.Sleep(tt.ago) // sleep: in a synctest bubble
			}
			if got := time.Until(c.Latest()); got != tt.want {
				t.Errorf("%s: got %v from the host's clock, want %v", tt.name, got, tt.want)
			}
		}
	})
	if got := (*Clock)(nil).Latest(); time.Since(got).Abs() > time.Minute {
		t.Errorf("without a clock: got %v, want the host's", got)
	}
}

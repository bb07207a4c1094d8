package clockcheck

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

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

package members

import (
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func TestCleanupKeepsAQuorum(t *testing.T) {
	defaults := rulesOf(nil)
	if defaults.cleanup || defaults.dead != 24*time.Hour || defaults.minQuorum != 3 || defaults.stabilise != 0 {
		t.Errorf("got defaults %+v", defaults)
	}
	five := rulesOf(&internalv1.AutopilotConfig{MinQuorum: 5})
	for _, tt := range []struct {
		rules           autopilotRules
		rest, following int
		want            bool
	}{
		{defaults, 2, 2, false}, // of three peers, none is removed
		{defaults, 3, 3, true},
		{defaults, 4, 3, true},
		{defaults, 4, 2, false}, // the remaining ones are not a majority
		{defaults, 3, 1, false},
		{five, 4, 4, false},
		{five, 5, 3, true},
	} {
		if got := tt.rules.mayClean(tt.rest, tt.following); got != tt.want {
			t.Errorf("min quorum %d, %d voters left, %d following: got %t, want %t", tt.rules.minQuorum, tt.rest, tt.following,
				got, tt.want)
		}
	}
}

func TestConditionTimes(t *testing.T) {
	var c conditions
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for _, s := range []struct {
		now  int
		ok   bool
		want int
	}{{1, true, 1}, {5, true, 1}, {7, false, 7}, {9, false, 7}, {11, true, 11}} {
		if got := c.note("p1", s.ok, at(s.now)); !got.Equal(at(s.want)) {
			t.Errorf("at %d, healthy %t: got since %d, want %d", s.now, s.ok, got.Unix(), s.want)
		}
	}
	c.reset()
	if _, ok := c.get("p1"); ok {
		t.Error("got observations of the former leader")
	}
}

func TestUnhealthy(t *testing.T) {
	for _, tt := range []struct {
		p    *holdfastv1.Peer
		want string
	}{
		{&holdfastv1.Peer{Suffrage: "voter", MayVote: true}, ""},
		{&holdfastv1.Peer{Suffrage: "voter", MayVote: true, Behind: 5000}, "is 5000 entries behind"},
		{&holdfastv1.Peer{Suffrage: "voter"}, "has no vote yet: it is catching up"},
		{&holdfastv1.Peer{Suffrage: "nonvoter", MayVote: true}, "does not vote yet"},
		{&holdfastv1.Peer{Suffrage: "voter", Error: "refused"}, "does not answer: refused"},
	} {
		if got := unwell(tt.p); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.p, got, tt.want)
		}
	}
}

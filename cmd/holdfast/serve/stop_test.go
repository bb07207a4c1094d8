package serve

import (
	"errors"
	"testing"
)

func TestStatusLine(t *testing.T) {
	for _, tt := range []struct {
		role, leader string
		why          error
		want         string
	}{
		{"leader", "n1", nil, "leader, index 7"},
		{"follower", "n2", nil, "follower of n2, index 7"},
		{"candidate", "", errors.New("no known leader"), "candidate, index 7: not ready: no known leader"},
	} {
		if got := statusLine(tt.role, tt.leader, 7, tt.why); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

package cli

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestTrouble(t *testing.T) {
	voter := func(id string, may bool) *holdfastv1.Peer {
		return &holdfastv1.Peer{Id: id, Suffrage: "voter", MayVote: may}
	}
	down := &holdfastv1.Peer{Id: "p3", Suffrage: "voter", Error: "connection refused"}
	for name, tt := range map[string]struct {
		peers []*holdfastv1.Peer
		of    int
		want  string
	}{
		"votes": {[]*holdfastv1.Peer{voter("p1", true), voter("p2", true)}, 1, ""},
		"has lost its data": {[]*holdfastv1.Peer{voter("p1", true), voter("p2", false)}, 1,
			"does not vote yet: it catches up"},
		"none votes": {[]*holdfastv1.Peer{voter("p1", false), voter("p2", false)}, 1,
			"does not vote yet: it catches up"},
		"is down":  {[]*holdfastv1.Peer{voter("p1", true), down}, 1, "connection refused"},
		"no voter": {[]*holdfastv1.Peer{voter("p1", true), {Id: "p4", Suffrage: "nonvoter"}}, 1, ""},
	} {
		if got := trouble(tt.peers[tt.of]); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// TestMeter checks that the pause of a drill includes writes that are still refused at its end.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		m := &meter{last: begin}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		m.run(ctx, func(context.Context) error {
			if time.Since(begin) < time.Second {
				return nil
			}
			return errors.New("no leader")
		})
		if got := m.longest.Round(100 * time.Millisecond); got != 2*time.Second {
			t.Errorf("got a pause of %s, want 2s", got)
		}
		if m.acked == 0 || m.refused == 0 {
			t.Errorf("got %d acknowledged and %d refused writes, want some of both", m.acked, m.refused)
		}
	})
}

func TestUnsafe(t *testing.T) {
	up := func(id string) *holdfastv1.Peer {
		return &holdfastv1.Peer{Id: id, Suffrage: "voter", MayVote: true, Alive: true}
	}
	for name, tt := range map[string]struct {
		s    *holdfastv1.ClusterStatus
		want string
	}{
		"safe": {&holdfastv1.ClusterStatus{Leader: "p1", FailureTolerance: 1,
			Peers: []*holdfastv1.Peer{up("p1"), up("p2"), up("p3")}}, ""},
		"no leader": {&holdfastv1.ClusterStatus{FailureTolerance: 1}, "there is no leader"},
		"one peer down": {&holdfastv1.ClusterStatus{Leader: "p1", Peers: []*holdfastv1.Peer{up("p1"), up("p2"),
			{Id: "p3", Suffrage: "voter", Error: "refused"}}}, "peer p3: refused"},
		"alone": {&holdfastv1.ClusterStatus{Leader: "p1", Peers: []*holdfastv1.Peer{up("p1")}},
			"there are too few voters for one of them to fail"},
	} {
		if got := unsafe(tt.s); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

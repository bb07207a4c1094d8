package kinds

import (
	"testing"

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
		if got := Trouble(tt.peers[tt.of]); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
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
		if got := Unsafe(tt.s); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

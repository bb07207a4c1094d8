package operator

import (
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestUpgradeCheck(t *testing.T) {
	peers := func(versions ...string) []*holdfastv1.Peer {
		var all []*holdfastv1.Peer
		for i, v := range versions {
			all = append(all, &holdfastv1.Peer{Id: "n" + string(rune('1'+i)), Version: v, Suffrage: "voter", MayVote: true,
				MaxFeatureLevel: 2})
		}
		return all
	}
	for name, tt := range map[string]struct {
		change    func(*holdfastv1.ClusterStatus)
		no, order string
	}{
		"well": {func(*holdfastv1.ClusterStatus) {}, "", "the leader last: n2, n3, n1 (leads"},
		"half way": {func(s *holdfastv1.ClusterStatus) { s.Peers[1].Version = "new" }, "",
			"the leader last: n3, n1 (leads"},
		"done": {func(s *holdfastv1.ClusterStatus) { s.Peers = peers("new", "new", "new") }, "",
			"all peers run this build"},
		"too old": {func(s *holdfastv1.ClusterStatus) { s.FeatureLevel = 3 },
			"understands level 2, the cluster uses 3", ""},
		"no leader":        {func(s *holdfastv1.ClusterStatus) { s.Leader = "" }, "there is no leader", ""},
		"unreachable peer": {func(s *holdfastv1.ClusterStatus) { s.Peers[2].Error = "no answer" }, "peer n3: no answer", ""},
		"peer catching up": {func(s *holdfastv1.ClusterStatus) { s.Peers[2].MayVote = false }, "peer n3: does not vote yet",
			""},
		"none may fail": {func(s *holdfastv1.ClusterStatus) { s.FailureTolerance = 0 }, "too few voters", ""},
	} {
		s := &holdfastv1.ClusterStatus{Leader: "n1", FeatureLevel: 2, FailureTolerance: 1, Peers: peers("old", "old", "old")}
		tt.change(s)
		if got := noUpgrade(s, 2); (tt.no == "") != (got == "") || !strings.Contains(got, tt.no) {
			t.Errorf("%s: got %q, want %q", name, got, tt.no)
		}
		if got := nextUpgrade(s, "new"); !strings.Contains(got, tt.order) {
			t.Errorf("%s: got %q, want %q", name, got, tt.order)
		}
	}
}

package members

import (
	"testing"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func TestCommonLevel(t *testing.T) {
	servers := []raft.Server{{ID: "a"}, {ID: "b"}}
	levels := func(m map[string]uint32) func(string) (*internalv1.PeerRecord, bool) {
		return func(id string) (*internalv1.PeerRecord, bool) {
			l, ok := m[id]
			return &internalv1.PeerRecord{MaxFeatureLevel: l}, ok
		}
	}
	for _, tc := range []struct {
		known map[string]uint32
		want  uint32
	}{
		{map[string]uint32{"a": 4, "b": 5}, 4},
		{map[string]uint32{"a": 1, "b": 5}, 1},
		{map[string]uint32{"a": 9, "b": 9}, 6}, // this peer's own
		{map[string]uint32{"a": 9}, 0},
	} {
		if got := commonLevel(6, servers, levels(tc.known)); got != tc.want {
			t.Errorf("%v: got %d, want %d", tc.known, got, tc.want)
		}
	}
}

func TestMayVote(t *testing.T) {
	for _, tc := range []struct {
		applied, floor, commit uint64
		want                   bool
	}{
		{10, 10, 10, true}, {9, 10, 10, false}, {10, 10, 10 + promoteLag, true}, {10, 10, 11 + promoteLag, false}, {20, 10,
			15, true},
	} {
		if got := mayVote(tc.applied, tc.floor, tc.commit); got != tc.want {
			t.Errorf("applied %d, floor %d, commit %d: got %t, want %t", tc.applied, tc.floor, tc.commit, got, tc.want)
		}
	}
}

package fsm_test

import (
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func TestLeaders(t *testing.T) {
	p := &fsmtest.Peer{FSM: fsm.New(), Now: fsmtest.NewPeer().Now}
	if m := p.View().Meta(); m.GetEpoch() != 0 || m.GetLeader() != "" || m.GetFeatureLevel() != 1 || m.GetNow() != nil {
		t.Errorf("empty: got %v", m)
	}
	do(t, p, &internalv1.LeaderEstablished{PeerId: "p1", Term: 3})
	refused(t, p, &internalv1.LeaderEstablished{PeerId: "p2", Term: 2}, fsm.Aborted, fsm.ReasonStaleEpoch)
	do(t, p, &internalv1.LeaderEstablished{PeerId: "p1", Term: 3})
	do(t, p, &internalv1.LeaderEstablished{PeerId: "p2", Term: 4})
	if m := p.View().Meta(); m.GetEpoch() != 4 || m.GetLeader() != "p2" {
		t.Errorf("got %v, want epoch 4 and leader p2", m)
	}
}

func TestClusterIsNamedOnce(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.InitCluster{ClusterId: "c-1"})
	refused(t, p, &internalv1.InitCluster{ClusterId: "c-2"}, fsm.AlreadyExists, "CLUSTER_EXISTS")
	refused(t, p, &internalv1.InitCluster{ClusterId: "c-1"}, fsm.AlreadyExists, "CLUSTER_EXISTS")
	if got := p.View().Meta().GetClusterId(); got != "c-1" {
		t.Errorf("got %q, want c-1", got)
	}
}

func TestFeatureLevels(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.RaiseFeatureLevel{Level: 0})
	do(t, p, &internalv1.RaiseFeatureLevel{Level: fsm.FeatureLevel})
	if got := p.View().Meta().GetFeatureLevel(); got != fsm.FeatureLevel {
		t.Errorf("got %d, want %d: it never goes down", got, fsm.FeatureLevel)
	}
}

func TestPeers(t *testing.T) {
	p := fsmtest.NewPeer()
	record := func(id, instance string) *internalv1.PeerRecord {
		return &internalv1.PeerRecord{Id: id, Instance: instance, RaftAddr: "10.0.0.1:7000",
			MaxFeatureLevel: fsm.FeatureLevel, Version: "v1"}
	}
	for _, id := range []string{"p2", "p1", "p3"} {
		do(t, p, &internalv1.PutPeer{Peer: record(id, "i1")})
	}
	do(t, p, &internalv1.PutPeer{Peer: record("p1", "i2")}) // it lost its data
	same(t, "peers", []*internalv1.PeerRecord{record("p1", "i2"), record("p2", "i1"), record("p3", "i1")},
		p.View().Peers())
	if got, ok := p.View().Peer("p1"); !ok || got.GetInstance() != "i2" {
		t.Errorf("p1: got %v, %v", got, ok)
	}
	do(t, p, &internalv1.RemovePeer{Id: "p2"})
	do(t, p, &internalv1.RemovePeer{Id: "p2"})
	if _, ok := p.View().Peer("p2"); ok || len(p.View().Peers()) != 2 {
		t.Errorf("after p2 was removed: got %v", p.View().Peers())
	}
	old := record("p4", "i1")
	old.MaxFeatureLevel = 0
	refused(t, p, &internalv1.PutPeer{Peer: old}, fsm.FailedPrecondition, "PEER_TOO_OLD")
	refused(t, p, &internalv1.PutPeer{Peer: record("", "i1")}, fsm.InvalidArgument, "INVALID_FIELD")
	refused(t, p, &internalv1.PutPeer{}, fsm.InvalidArgument, "INVALID_FIELD")
}

package fsm

import "github.com/holdfast-metal/holdfast/proto/internalv1"

func (t *tx) leaderEstablished(c *internalv1.LeaderEstablished) *Error {
	if c.GetTerm() < t.meta.GetEpoch() {
		return refuse(Aborted, ReasonStaleEpoch, "leader of term %d refused: the epoch is %d",
			c.GetTerm(), t.meta.GetEpoch())
	}
	t.meta.Epoch, t.meta.Leader = c.GetTerm(), c.GetPeerId()
	t.clearStage()
	return nil
}

func (t *tx) initCluster(c *internalv1.InitCluster) *Error {
	if id := t.meta.GetClusterId(); id != "" {
		return refuse(AlreadyExists, "CLUSTER_EXISTS", "the cluster already has the id %s", id)
	}
	t.meta.ClusterId = c.GetClusterId()
	if t.meta.GetLastNews() == 0 {
		// A watcher of an empty cluster needs a cursor to resume from, and zero would mean
		// "from now on".
		t.meta.LastNews, t.meta.FirstNews = 1, 2
	}
	return nil
}

func (t *tx) raiseFeatureLevel(c *internalv1.RaiseFeatureLevel) *Error {
	t.meta.FeatureLevel = max(t.meta.GetFeatureLevel(), c.GetLevel())
	return nil
}

func (t *tx) putPeer(c *internalv1.PutPeer) *Error {
	if c.GetPeer().GetId() == "" {
		return invalid("peer.id", "is required")
	}
	if l, have := t.meta.GetFeatureLevel(), c.GetPeer().GetMaxFeatureLevel(); have < l {
		return refuse(FailedPrecondition, "PEER_TOO_OLD",
			"peer %s refused: it understands feature level %d, the cluster uses %d; upgrade it",
			c.GetPeer().GetId(), have, l)
	}
	t.peers.Put(c.GetPeer())
	return nil
}

func (t *tx) removePeer(c *internalv1.RemovePeer) *Error {
	t.peers.Delete(c.GetId())
	return nil
}

// Peers returns the record of every peer, by id.
func (v *View) Peers() []*internalv1.PeerRecord {
	var ps []*internalv1.PeerRecord
	for p := range v.peers.Ascend("", "") {
		ps = append(ps, p)
	}
	return ps
}

// Peer returns the record of a peer.
func (v *View) Peer(id string) (*internalv1.PeerRecord, bool) { return v.peers.Get(id) }

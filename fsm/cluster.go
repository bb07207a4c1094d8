package fsm

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/backup"
	"github.com/holdfast-metal/holdfast/fsm/internal/consoles"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func leaderEstablished(t *core.Tx, c *internalv1.LeaderEstablished) *Error {
	if c.GetTerm() < t.Meta.GetEpoch() {
		return refuse(Aborted, ReasonStaleEpoch, "leader of term %d refused: the epoch is %d",
			c.GetTerm(), t.Meta.GetEpoch())
	}
	t.Meta.Epoch, t.Meta.Leader = c.GetTerm(), c.GetPeerId()
	backup.ClearStage(t)
	consoles.EndAll(t, consoles.LeaderLost)
	return nil
}

func initCluster(t *core.Tx, c *internalv1.InitCluster) *Error {
	if id := t.Meta.GetClusterId(); id != "" {
		return refuse(AlreadyExists, "CLUSTER_EXISTS", "the cluster already has the id %s", id)
	}
	t.Meta.ClusterId = c.GetClusterId()
	if t.Meta.GetLastEvent() == 0 {
		// A watcher of an empty cluster needs a cursor to resume from, and zero would mean
		// "from now on".
		t.Meta.LastEvent, t.Meta.FirstEvent = 1, 2
	}
	return nil
}

func raiseFeatureLevel(t *core.Tx, c *internalv1.RaiseFeatureLevel) *Error {
	t.Meta.FeatureLevel = max(t.Meta.GetFeatureLevel(), c.GetLevel())
	return nil
}

func putPeer(t *core.Tx, c *internalv1.PutPeer) *Error {
	if c.GetPeer().GetId() == "" {
		return invalid("peer.id", "is required")
	}
	if l, have := t.Meta.GetFeatureLevel(), c.GetPeer().GetMaxFeatureLevel(); have < l {
		return refuse(FailedPrecondition, "PEER_TOO_OLD",
			"peer %s refused: it understands feature level %d, the cluster uses %d; upgrade it",
			c.GetPeer().GetId(), have, l)
	}
	t.Peers.Put(c.GetPeer())
	return nil
}

func removePeer(t *core.Tx, c *internalv1.RemovePeer) *Error {
	d := c.GetDenial()
	switch {
	case d == nil:
	case d.GetId() != c.GetId():
		return invalid("denial.id", "is %q, not that of the removed peer, %q", d.GetId(), c.GetId())
	default:
		d = proto.CloneOf(d)
		d.Denied, d.At, d.Removing = true, t.Now, c.GetBegin()
		putAdmission(t, d)
	}
	if c.GetBegin() {
		return nil
	}
	if a, ok := t.Admissions.Get(c.GetId()); ok && a.GetRemoving() {
		a = proto.CloneOf(a)
		a.Removing = false
		t.Admissions.Put(a)
	}
	t.Peers.Delete(c.GetId())
	return nil
}

func admitPeer(t *core.Tx, c *internalv1.AdmitPeer) *Error {
	if id := c.GetId(); id == "" || len(id) > maxPeerID {
		return invalid("id", "has %d bytes: want the id of a peer, 1 to %d bytes", len(id), maxPeerID)
	}
	putAdmission(t, &internalv1.PeerAdmission{Id: c.GetId(), At: t.Now})
	return nil
}

const (
	maxPeerID     = 128
	maxAdmissions = 256 // decisions about peers; the oldest one makes room
)

// putAdmission replaces the decision about a peer.
func putAdmission(t *core.Tx, a *internalv1.PeerAdmission) {
	if _, known := t.Admissions.Get(a.GetId()); !known && t.Admissions.Len() >= maxAdmissions {
		var oldest *internalv1.PeerAdmission
		for o := range t.Admissions.Ascend("", "") {
			if oldest == nil || o.GetAt().AsTime().Before(oldest.GetAt().AsTime()) {
				oldest = o
			}
		}
		t.Admissions.Delete(oldest.GetId())
	}
	t.Admissions.Put(a)
}

// minDeadServer is the shortest time after which a peer may count as permanently gone, in
// milliseconds. A reboot of its host must not count.
const minDeadServer = 60_000

// setAutopilot replaces the rules by which leaders change the membership automatically.
func setAutopilot(t *core.Tx, c *internalv1.SetAutopilot) *Error {
	a := c.GetConfig()
	switch {
	case a == nil:
		return invalid("config", "is required")
	case a.GetDeadServerMs() != 0 && a.GetDeadServerMs() < minDeadServer:
		return invalid("config.dead_server_threshold",
			"is %d ms, at least %d ms are allowed: a reboot takes as long", a.GetDeadServerMs(), minDeadServer)
	case a.GetStabilizationMs() < 0 || a.GetDeadServerMs() < 0:
		return invalid("config", "has a time below zero")
	case a.GetMinQuorum() == 1 || a.GetMinQuorum() == 2:
		return invalid("config.min_quorum", "is %d: with fewer than three voters none may fail", a.GetMinQuorum())
	}
	t.Meta.Autopilot = a
	return nil
}

// resetClock sets the record's clock to the right time. No other command may set it back.
func resetClock(t *core.Tx, c *internalv1.ResetClock) *Error {
	if !c.GetTo().IsValid() || c.GetTo().AsTime().Unix() <= 0 {
		return invalid("to", "is not a time")
	}
	t.ResetClock(c.GetTo().AsTime())
	return nil
}

// compareClocks sets the record's clock by the clocks of a majority of the voters.
func compareClocks(t *core.Tx, c *internalv1.CompareClocks) *Error {
	if !t.Compare(c) {
		return refuse(FailedPrecondition, ReasonClocksDiffer,
			"the clocks of no majority of the voters agree (%d in all): correct the clocks of the peers", c.GetVoters())
	}
	return nil
}

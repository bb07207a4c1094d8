package fsmtest

import (
	"bytes"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// operatorGenerator makes the commands of the cluster itself, and of operators of the control
// plane. Restores are not included: they break invariants of CheckStep on purpose, and have their
// own tests.
type operatorGenerator struct{ draw }

// choices returns the commands of operators.
func (g operatorGenerator) choices() []choice {
	return []choice{
		{1, "stage a chunk", g.stageBackup},
		{1, "set autopilot", g.setAutopilot},
		{1, "reset the clock", g.resetClock},
		{1, "note a snapshot", g.noteBackup},
	}
}

func (g operatorGenerator) stageBackup(*fsm.View) proto.Message {
	return &internalv1.StageBackup{
		RestoreId: g.id("restore", 2),
		Sequence:  uint32(g.Choose("sequence", 3)),
		Data:      []byte(g.id("chunk", 2)),
	}
}

func (g operatorGenerator) noteBackup(*fsm.View) proto.Message {
	c := &internalv1.NoteBackup{Peer: g.id("p", 3)}
	if n := g.Choose("saved", 3); n > 0 {
		c.Saved = &timestamppb.Timestamp{Seconds: int64(n) * 3600}
	}
	return c
}

func (g operatorGenerator) setAutopilot(*fsm.View) proto.Message {
	return &internalv1.SetAutopilot{Config: &internalv1.AutopilotConfig{
		CleanupDeadServers: g.Choose("cleanup", 2) == 1, MinQuorum: uint32(g.Choose("quorum", 6)),
		DeadServerMs: int64(g.Choose("dead", 3)) * 60_000}}
}

// resetClock only sets the clock forward, because CheckStep requires that time never goes
// back. TestResetClock sets it back.
func (g operatorGenerator) resetClock(v *fsm.View) proto.Message {
	return &internalv1.ResetClock{
		To: timestamppb.New(v.Now().Add(time.Duration(g.Choose("minutes", 3)) * time.Minute)),
	}
}

func (g operatorGenerator) lead(v *fsm.View) proto.Message {
	term := v.Meta().GetEpoch() + 1 + uint64(g.Choose("terms", 2))
	if g.rarely("leader of old") {
		term = uint64(g.Choose("term", int(term)))
	}
	return &internalv1.LeaderEstablished{PeerId: g.id("p", 3), Term: term}
}

func (g operatorGenerator) cluster(v *fsm.View) proto.Message {
	return oneOf(g.draw, "cluster", []proto.Message{
		&internalv1.PutPeer{
			Peer: &internalv1.PeerRecord{Id: g.id("p", 4), Instance: g.id("i", 3), MaxFeatureLevel: fsm.FeatureLevel},
		},
		&internalv1.RemovePeer{Id: g.id("p", 4)},
		denyPeer(g.id("p", 4)),
		&internalv1.AdmitPeer{Id: g.id("p", 4)},
		&internalv1.InitCluster{ClusterId: g.id("c", 2)},
		&internalv1.RaiseFeatureLevel{Level: fsm.FeatureLevel},
		&internalv1.NoOp{},
		&internalv1.CompareClocks{Voters: 1, Readings: []*internalv1.ClockReading{
			{PeerId: "p1", At: timestamppb.New(v.Now().Add(time.Minute))},
		}},
	})
}

// denyPeer returns the removal of a peer by an operator.
func denyPeer(id string) *internalv1.RemovePeer {
	return &internalv1.RemovePeer{Id: id, Denial: &internalv1.PeerAdmission{Id: id, Serials: []string{"a1"}}}
}

// Backup returns the snapshot file of a state.
func Backup(v *fsm.View) ([]byte, error) {
	var b bytes.Buffer
	err := v.Snapshot().WriteBackup(&b, fsm.BackupInfo{TakenAt: v.Meta().GetNow(), Peer: "p1", Version: "test"})
	return b.Bytes(), err
}

// RestoreFile stages a snapshot file in chunks of a size, and restores it.
func (p *Peer) RestoreFile(file []byte, chunk int, c *internalv1.RestoreBackup) fsm.Result {
	for n := 0; len(file) > 0; n++ {
		cut := min(chunk, len(file))
		chunk := &internalv1.StageBackup{RestoreId: c.GetRestoreId(), Sequence: uint32(n), Data: file[:cut]}
		if r := p.Do(chunk); r.Err != nil {
			return r
		}
		file, c.Chunks = file[cut:], uint32(n+1)
	}
	return p.Do(c)
}

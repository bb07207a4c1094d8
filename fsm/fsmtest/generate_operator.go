package fsmtest

import (
	"bytes"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// operatorChoices are the commands of operators of the control plane. Restores are not
// included: they break invariants of CheckStep on purpose, and have their own tests.
func operatorChoices() []choice {
	return []choice{
		{1, "stage a chunk", (*Generator).stageBackup},
		{1, "set autopilot", (*Generator).setAutopilot},
		{1, "reset the clock", (*Generator).resetClock},
		{1, "note a snapshot", (*Generator).noteBackup},
	}
}

func (g *Generator) stageBackup(*fsm.View) proto.Message {
	return &internalv1.StageBackup{
		RestoreId: g.id("restore", 2),
		Sequence:  uint32(g.Chooser.Choose("sequence", 3)),
		Data:      []byte(g.id("chunk", 2)),
	}
}

func (g *Generator) noteBackup(*fsm.View) proto.Message {
	c := &internalv1.NoteBackup{Peer: g.id("p", 3)}
	if n := g.Chooser.Choose("saved", 3); n > 0 {
		c.Saved = &timestamppb.Timestamp{Seconds: int64(n) * 3600}
	}
	return c
}

func (g *Generator) setAutopilot(*fsm.View) proto.Message {
	return &internalv1.SetAutopilot{Config: &internalv1.AutopilotConfig{
		CleanupDeadServers: g.Chooser.Choose("cleanup", 2) == 1, MinQuorum: uint32(g.Chooser.Choose("quorum", 6)),
		DeadServerMs: int64(g.Chooser.Choose("dead", 3)) * 60_000}}
}

// resetClock only sets the clock forward, because CheckStep requires that time never goes
// back. TestResetClock sets it back.
func (g *Generator) resetClock(v *fsm.View) proto.Message {
	return &internalv1.ResetClock{
		To: timestamppb.New(v.Now().Add(time.Duration(g.Chooser.Choose("minutes", 3)) * time.Minute)),
	}
}

// Backup returns the snapshot file of a state.
func Backup(v *fsm.View) ([]byte, error) {
	var b bytes.Buffer
	err := v.Snapshot().WriteBackup(&b, fsm.BackupInfo{TakenAt: v.Meta().GetNow(), Peer: "p1", Version: "test"})
	return b.Bytes(), err
}

// BringBack stages a snapshot file in chunks of a size, and restores it.
func (p *Peer) BringBack(file []byte, chunk int, c *internalv1.RestoreBackup) fsm.Result {
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

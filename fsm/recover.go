package fsm

import (
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/backup"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/runs"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	"github.com/holdfast-metal/holdfast/fsm/internal/waves"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Recover turns the state of a peer that has lost its majority into the beginning of another
// cluster, and returns the runs it ended. The cluster gets a new id, so that returning old
// peers are not part of it. Active runs fail, because progress that the lost peers
// acknowledged may not be recorded here. Call it on a peer that is not running; it bypasses
// the log.
func (f *FSM) Recover(clusterID, why string) ([]*holdfastv1.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.haltErr != nil {
		return nil, f.haltErr
	}
	t := core.NewTx(f.state, f.own, f.state.Meta.GetAppliedIndex(),
		&internalv1.Command{Time: f.state.Meta.GetNow(), Principal: "system"})
	moveCursors(t)
	ended := runs.ActiveRuns(t.State)
	for i, run := range ended {
		run = proto.CloneOf(run)
		ended[i] = run
		runs.CloseSteps(t, run, why)
		runs.FinishRun(t, run, holdfastv1.Run_FAILED,
			&holdfastv1.RunError{Reason: runs.ReasonRecovered, Message: why, Step: run.GetCurrentStep()})
	}
	waves.Abandon(t, "the cluster was recovered from one peer")
	backup.ClearStage(t)
	t.Meta.ClusterId = clusterID
	f.publish()
	return ended, nil
}

// recoverGap separates the cursors of the lost peers from those of the recovered cluster. No
// peer has recorded that many events more than this one.
const recoverGap = 1 << 32

// moveCursors renumbers events. A cursor issued by a lost peer is then always refused, and
// never taken for a position in the recovered cluster. Webhooks move along, so that they
// still deliver pending events.
func moveCursors(t *core.Tx) {
	m := t.Meta
	t.RunEvents.Rewrite(func(e *holdfastv1.RunEvent) { e.Cursor += recoverGap })
	t.ServiceEvents.Rewrite(func(e *holdfastv1.ServiceEvent) { e.Cursor += recoverGap })
	t.Events.Rewrite(func(e *holdfastv1.Event) { e.Cursor += recoverGap })
	for w := range collected(t.Webhooks) {
		w.Cursor += recoverGap
		t.Webhooks.Put(w)
	}
	m.LastRunEvent, m.FirstRunEvent = m.GetLastRunEvent()+recoverGap, max(1, m.GetFirstRunEvent())+recoverGap
	m.LastServiceEvent, m.FirstServiceEvent = m.GetLastServiceEvent()+recoverGap,
		max(1, m.GetFirstServiceEvent())+recoverGap
	m.LastEvent, m.FirstEvent = m.GetLastEvent()+recoverGap, max(1, m.GetFirstEvent())+recoverGap
}

// collected returns copies of the rows of a table, which may be changed during the iteration.
func collected[P proto.Message](t *table.Table[P]) iter.Seq[P] {
	rows := slices.Collect(t.Ascend("", ""))
	for i, row := range rows {
		rows[i] = proto.CloneOf(row)
	}
	return slices.Values(rows)
}

package fsm

import (
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Recover makes of the state of a peer that has lost its majority the beginning of another cluster:
// it gets an id of its own, so that old peers that come back are no peers of it, and the runs that
// were active have FAILED, because what the lost peers had acknowledged of them may not be recorded
// here. It gives those runs. It is for a peer that does not run; nothing of it goes through a log.
func (f *FSM) Recover(clusterID, why string) ([]*holdfastv1.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.haltErr != nil {
		return nil, f.haltErr
	}
	t := newTx(f, f.state.meta.GetAppliedIndex(), &internalv1.Command{Time: f.state.meta.GetNow(), Principal: "system"})
	t.moveCursors()
	ended := t.activeRuns()
	for _, run := range ended {
		t.closeSteps(run, why)
		t.finishRun(run, holdfastv1.Run_FAILED, &holdfastv1.RunError{Reason: reasonRecovered, Message: why, Step: run.GetCurrentStep()})
	}
	t.clearStage()
	t.meta.ClusterId = clusterID
	f.publish()
	return ended, nil
}

// recoverGap lies between the cursors of the lost peers and those of the recovered cluster. No peer
// has made as many events beyond what this one has.
const recoverGap = 1 << 32

// moveCursors renumbers events, so that a cursor that a lost peer has handed out is refused for
// ever, and never taken for a place in the history of the recovered cluster. Webhooks move along:
// they still deliver what was pending.
func (t *tx) moveCursors() {
	m := t.meta
	for e := range collected(t.events) {
		t.events.delete(ordered(e.GetCursor()))
		e.Cursor += recoverGap
		t.events.put(e)
	}
	for e := range collected(t.serviceEvents) {
		t.serviceEvents.delete(ordered(e.GetCursor()))
		e.Cursor += recoverGap
		t.serviceEvents.put(e)
	}
	for e := range collected(t.news) {
		t.news.delete(ordered(e.GetCursor()))
		e.Cursor += recoverGap
		t.news.put(e)
	}
	for w := range collected(t.webhooks) {
		w.Cursor += recoverGap
		t.webhooks.put(w)
	}
	m.LastEvent, m.FirstEvent = m.GetLastEvent()+recoverGap, max(1, m.GetFirstEvent())+recoverGap
	m.LastServiceEvent, m.FirstServiceEvent = m.GetLastServiceEvent()+recoverGap, max(1, m.GetFirstServiceEvent())+recoverGap
	m.LastNews, m.FirstNews = m.GetLastNews()+recoverGap, max(1, m.GetFirstNews())+recoverGap
}

// collected returns the rows of a table that may be changed while they are read.
func collected[P proto.Message](t *table[P]) iter.Seq[P] {
	return slices.Values(slices.Collect(t.ascend("", "")))
}

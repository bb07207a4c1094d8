package client

import holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"

// position is where a watch stands. A stream that starts at cursor 0 sends the current state first
// and transitions after it; it can be resumed by cursor only once the state is complete. That is when
// an event without a snapshot comes (a bookmark), or the first one whose cursor lies after those of
// the state. Before that, a broken watch starts with the state again, and what was delivered of it
// is known by the runs' revisions.
type position struct {
	cursor uint64 // of the last event; resume after it
	// While the state is not complete:
	state   bool
	first   uint64            // the cursor of its first event in this part
	zero    bool              // an event without a cursor came in this part
	partial map[string]uint64 // revisions delivered, by run
	// The runs delivered at the highest Raft index: a state that starts again later shows what lies
	// after it.
	index   uint64
	atIndex map[string]bool
}

func newPosition(cursor uint64) *position {
	return &position{cursor: cursor, state: cursor == 0, partial: map[string]uint64{}, atIndex: map[string]bool{}}
}

// resume is the cursor to ask for.
func (p *position) resume() uint64 {
	if p.state {
		p.first, p.zero = 0, false
		return 0
	}
	return p.cursor
}

// restart makes the next part begin with the current state.
func (p *position) restart() {
	p.cursor, p.state = 0, true
}

// fresh tells whether an event is to be delivered. It moves the position over those that are not.
func (p *position) fresh(e *holdfastv1.RunEvent) bool {
	run := e.GetSnapshot()
	if run == nil {
		p.complete()
		p.cursor = max(p.cursor, e.GetCursor())
		return false
	}
	if p.state && e.GetCursor() != 0 && (p.zero || p.first != 0 && e.GetCursor() > p.first) {
		p.complete()
	}
	if !p.state {
		return e.GetCursor() == 0 || e.GetCursor() > p.cursor
	}
	if e.GetCursor() == 0 {
		p.zero = true
	} else if p.first == 0 {
		p.first = e.GetCursor()
	}
	return !p.known(run)
}

// known tells whether this state of the run, or a later one, was delivered.
func (p *position) known(run *holdfastv1.Run) bool {
	revision := run.GetRevision()
	if revision == 0 {
		return false
	}
	if delivered, ok := p.partial[run.GetRunId()]; ok && revision <= delivered {
		return true
	}
	return revision < p.index || revision == p.index && p.atIndex[run.GetRunId()]
}

// seen moves the position over an event that was delivered.
func (p *position) seen(e *holdfastv1.RunEvent) {
	run := e.GetSnapshot()
	if p.state {
		p.partial[run.GetRunId()] = run.GetRevision()
		return
	}
	p.cursor = max(p.cursor, e.GetCursor())
	p.at(max(e.GetIndex(), run.GetRevision()), run.GetRunId())
}

func (p *position) at(index uint64, runID string) {
	if index > p.index {
		p.index = index
		clear(p.atIndex)
	}
	if index == p.index {
		p.atIndex[runID] = true
	}
}

// complete ends the state: from here on cursors count.
func (p *position) complete() {
	if !p.state {
		return
	}
	p.state = false
	p.cursor = max(p.cursor, p.first)
	for id, revision := range p.partial {
		p.at(revision, id)
	}
	clear(p.partial)
}

package client

import holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"

// position is where a watch stands. A stream that starts at cursor 0 sends the current state first
// and transitions after it. Events of the state have no cursor, but for the last one; an event
// without a snapshot (a bookmark) also ends it. From there on the watch is resumed by cursor.
// Before that a broken watch starts with the state again, and what was delivered of it is known by
// the runs' revisions.
type position struct {
	cursor uint64 // of the last event; resume after it
	// While the state is not complete:
	state   bool
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
		return 0
	}
	return p.cursor
}

// restart makes the next part begin with the current state. The cluster does not know the cursor:
// it may have been recovered or restored, and its revisions may be below those that were delivered.
// So nothing counts as known.
func (p *position) restart() {
	*p = *newPosition(0)
}

// fresh reports whether an event is to be delivered. It moves the position over those that are not.
func (p *position) fresh(e *holdfastv1.RunEvent) bool {
	run := e.GetSnapshot()
	switch {
	case run == nil:
		p.pass(e.GetCursor())
		return false
	case !p.state:
		return e.GetCursor() == 0 || e.GetCursor() > p.cursor
	case p.known(run):
		p.pass(e.GetCursor())
		return false
	}
	return true
}

// known reports whether this state of the run, or a later one, was delivered.
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
	} else {
		p.at(max(e.GetIndex(), run.GetRevision()), run.GetRunId())
	}
	p.pass(e.GetCursor())
}

// pass moves over a cursor. The first one ends the state.
func (p *position) pass(cursor uint64) {
	if cursor == 0 {
		return
	}
	p.cursor = max(p.cursor, cursor)
	if !p.state {
		return
	}
	p.state = false
	for id, revision := range p.partial {
		p.at(revision, id)
	}
	clear(p.partial)
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

package client

import holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"

// position is the progress of a watch. A stream that starts at cursor 0 sends the current
// state first, then the transitions. Events of the state carry no cursor, except the last
// one. A bookmark, which is an event without a snapshot, also ends the state. From there
// on, a broken watch resumes by cursor. Before, it starts again with the state, and skips
// events already delivered by the runs' revisions.
type position struct {
	cursor uint64 // of the last event; resume after it
	// Until the state is complete:
	state   bool
	partial map[string]uint64 // delivered revision of each run
	// The runs delivered at the highest Raft index. A state that starts again later skips
	// older ones.
	index   uint64
	atIndex map[string]bool
}

func newPosition(cursor uint64) *position {
	return &position{cursor: cursor, state: cursor == 0, partial: map[string]uint64{}, atIndex: map[string]bool{}}
}

// resume returns the cursor to request.
func (p *position) resume() uint64 {
	if p.state {
		return 0
	}
	return p.cursor
}

// restart makes the next part begin with the current state. The cluster may have been
// recovered or restored, and its revisions may be lower than those already delivered. So
// all progress is discarded.
func (p *position) restart() {
	*p = *newPosition(0)
}

// fresh reports whether to deliver an event. It moves the position past an event that is
// skipped.
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

// known reports whether this revision of the run, or a later one, was delivered.
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

// seen moves the position past a delivered event.
func (p *position) seen(e *holdfastv1.RunEvent) {
	run := e.GetSnapshot()
	if p.state {
		p.partial[run.GetRunId()] = run.GetRevision()
	} else {
		p.at(max(e.GetIndex(), run.GetRevision()), run.GetRunId())
	}
	p.pass(e.GetCursor())
}

// pass moves past a cursor. The first one ends the state.
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

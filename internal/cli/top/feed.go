package top

import (
	"sync"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// feed holds the events of the watch until the next drawing: of a thousand transitions in a
// moment, each run's last one is enough.
type feed struct {
	mu      sync.Mutex
	changed map[string]*holdfastv1.Run
	restart bool   // the watch has restarted: runs that it does not send again have ended
	cursor  uint64 // of the last event
	err     error  // why the watch has ended, while it has
}

func newFeed() *feed { return &feed{changed: map[string]*holdfastv1.Run{}} }

// begin starts a watch.
func (f *feed) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reset()
}

func (f *feed) reset() {
	clear(f.changed)
	f.restart, f.cursor, f.err = true, 0, nil
}

// add stores an event. The current state has cursor 0, except its last event: an event with
// cursor 0 after others starts a new state.
func (f *feed) add(e *holdfastv1.RunEvent) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.GetCursor() == 0 && f.cursor != 0 {
		f.reset()
	}
	f.cursor, f.err = e.GetCursor(), nil
	if r := e.GetSnapshot(); r != nil {
		f.changed[r.GetRunId()] = r
	}
	return nil
}

// fail stores the reason why there is no watch at the moment.
func (f *feed) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// runsMsg holds the changes since the last one.
type runsMsg struct {
	changed map[string]*holdfastv1.Run
	restart bool
	err     error
}

func (f *feed) take() runsMsg {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := runsMsg{f.changed, f.restart, f.err}
	f.changed, f.restart = map[string]*holdfastv1.Run{}, false
	return m
}

// mostEnded is the number of ended runs that are kept.
const mostEnded = 500

// runs holds the active runs, and the last ones that ended while the view was open.
type runs struct {
	active map[string]*holdfastv1.Run
	ended  []*holdfastv1.Run // the newest last
	phases map[holdfastv1.Run_Phase]int
}

func newRuns() runs {
	return runs{active: map[string]*holdfastv1.Run{}, phases: map[holdfastv1.Run_Phase]int{}}
}

func (s *runs) apply(m runsMsg) {
	if m.restart {
		clear(s.active)
	}
	for id, r := range m.changed {
		if !client.Finished(r) {
			s.active[id] = r
			continue
		}
		delete(s.active, id)
		if s.find(id) != nil {
			continue
		}
		s.phases[r.GetPhase()]++
		s.ended = append(s.ended, r)
	}
	if more := len(s.ended) - mostEnded; more > 0 {
		s.ended = append(s.ended[:0:0], s.ended[more:]...)
	}
}

// find returns a run, active or ended; nil if it is not known any more.
func (s *runs) find(id string) *holdfastv1.Run {
	if r := s.active[id]; r != nil {
		return r
	}
	for _, r := range s.ended {
		if r.GetRunId() == id {
			return r
		}
	}
	return nil
}

package fsm

import (
	"fmt"
	"io"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
)

// Snapshot is the state at one index. It can be written while the FSM continues.
type Snapshot struct{ state *core.State }

// Snapshot takes a snapshot in constant time. It fails once the FSM has halted, because the
// snapshot would cover a command that was not understood.
func (f *FSM) Snapshot() (*Snapshot, error) {
	if err := f.HaltError(); err != nil {
		return nil, fmt.Errorf("take snapshot: %w", err)
	}
	return &Snapshot{state: f.View().state}, nil
}

// Snapshot returns the state of a view as a snapshot.
func (v *View) Snapshot() *Snapshot { return &Snapshot{state: v.state} }

// Index returns the index of the last entry in the snapshot.
func (s *Snapshot) Index() uint64 { return s.state.Meta.GetAppliedIndex() }

// WriteTo streams the snapshot: a header with the applied index, every record as it is
// stored, and a trailer with the count and checksum.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	return table.Write(w, s.state.Meta, s.state.Tables())
}

// Restore replaces the state with a snapshot. It fails and changes nothing if the snapshot is
// damaged or newer than this build, or if the FSM has halted.
func (f *FSM) Restore(r io.Reader) error {
	s, _, err := core.ReadSnapshot(r, true)
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.haltErr != nil {
		return fmt.Errorf("restore snapshot: %w", f.haltErr)
	}
	if f.guarded {
		s.Guard()
	}
	f.state = s
	f.publish()
	return nil
}

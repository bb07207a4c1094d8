// Package raftfsm connects Raft to the state machine: it applies entries, and takes and restores
// snapshots. It must not know what the commands mean.
package raftfsm

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// FSM connects Raft to the state machine. Raft calls it from one goroutine.
type FSM struct {
	state *fsm.FSM
	now   atomic.Pointer[Applying] // the entry that is being applied; nil: none
	meter raftstore.Meter
	// Committed is called with each entry before it is applied. It must not block, and may be nil.
	Committed func(index, term uint64)
}

var (
	_ raft.FSM                = (*FSM)(nil)
	_ raft.ConfigurationStore = (*FSM)(nil)
)

// New returns an FSM that applies entries to a state.
func New(state *fsm.FSM) *FSM { return &FSM{state: state} }

// Meter returns the size of the log since the last snapshot.
func (r *FSM) Meter() *raftstore.Meter { return &r.meter }

// Applying is an entry that is being applied.
type Applying struct {
	Index uint64
	Began time.Time
	log   *raft.Log
}

// Bytes returns the size of the entry.
func (a *Applying) Bytes() int { return len(a.log.Data) }

// Applying returns the entry that is being applied, or nil.
func (r *FSM) Applying() *Applying { return r.now.Load() }

// Busy reports whether one entry has been applied for at least d.
func (r *FSM) Busy(d time.Duration) bool {
	a := r.now.Load()
	return a != nil && time.Since(a.Began) >= d
}

// Kinds returns the names of the entry's commands, at most three.
func (a *Applying) Kinds() string {
	var e internalv1.Entry
	if err := proto.Unmarshal(a.log.Data, &e); err != nil {
		return "unknown"
	}
	var names []string
	for i, c := range e.GetCommands() {
		if i == 3 {
			names = append(names, fmt.Sprintf("and %d more", len(e.GetCommands())-i))
			break
		}
		m := c.ProtoReflect()
		if op := m.WhichOneof(m.Descriptor().Oneofs().ByName("op")); op != nil {
			names = append(names, string(op.Name()))
		}
	}
	return strings.Join(names, ", ")
}

// Apply implements raft.FSM. It returns a []fsm.Result, one for each command of the entry.
func (r *FSM) Apply(l *raft.Log) any {
	// failpoint: entry-committed
	if r.Committed != nil {
		r.Committed(l.Index, l.Term)
	}
	r.now.Store(&Applying{Index: l.Index, Began: time.Now(), log: l})
	results := r.state.Apply(l.Index, l.Term, l.Data)
	r.now.Store(nil)
	// failpoint: entry-applied
	r.meter.Add(l.Data)
	return results
}

// StoreConfiguration implements raft.ConfigurationStore. A configuration change advances
// the visible index, so that no call waits for it in vain. Raft does not pass its term
// here. The term of the preceding command is the same on every peer, so snapshots stay
// byte-equal.
func (r *FSM) StoreConfiguration(index uint64, _ raft.Configuration) {
	r.state.Observe(index, r.state.View().Meta().GetAppliedTerm())
}

// Snapshot implements raft.FSM.
func (r *FSM) Snapshot() (raft.FSMSnapshot, error) {
	s, err := r.state.Snapshot()
	if err != nil {
		return nil, err
	}
	return snapshot{s, r.meter.Mark(), &r.meter}, nil
}

// Restore implements raft.FSM.
func (r *FSM) Restore(rc io.ReadCloser) error {
	err := r.state.Restore(rc)
	if err == nil {
		r.meter.Store(r.meter.Mark()) // it is on disk
	}
	// failpoint: snapshot-restored
	return errors.Join(err, rc.Close())
}

type snapshot struct {
	snap  io.WriterTo
	has   raftstore.LogSize
	meter *raftstore.Meter
}

// Persist implements raft.FSMSnapshot.
func (s snapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := s.snap.WriteTo(sink); err != nil {
		return errors.Join(fmt.Errorf("persist snapshot %s: %w", sink.ID(), err), sink.Cancel())
	}
	// failpoint: snapshot-written
	err := sink.Close()
	// failpoint: snapshot-stored
	if err == nil {
		s.meter.Store(s.has)
	}
	return err
}

// Release implements raft.FSMSnapshot. The state is shared and garbage-collected.
func (snapshot) Release() {}

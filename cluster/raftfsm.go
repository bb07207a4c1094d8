package cluster

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
	"github.com/holdfast-metal/holdfast/fsm"
)

// raftFSM connects Raft to the FSM. Raft calls it from one goroutine.
type raftFSM struct {
	fsm     *fsm.FSM
	applied atomic.Uint64 // log entries applied by this process, for the watchdog
	meter   raftstore.Meter
}

var (
	_ raft.FSM                = (*raftFSM)(nil)
	_ raft.ConfigurationStore = (*raftFSM)(nil)
)

// Apply implements raft.FSM. It returns a []fsm.Result, one for each command of the entry.
func (r *raftFSM) Apply(l *raft.Log) any {
	// failpoint: entry-committed
	results := r.fsm.Apply(l.Index, l.Term, l.Data)
	// failpoint: entry-applied
	r.applied.Add(1)
	r.meter.Add(l.Data)
	return results
}

// StoreConfiguration implements raft.ConfigurationStore. A configuration change advances
// the visible index, so that no call waits for it in vain. Raft does not pass its term
// here. The term of the preceding command is the same on every peer, so snapshots stay
// byte-equal.
func (r *raftFSM) StoreConfiguration(index uint64, _ raft.Configuration) {
	r.fsm.Observe(index, r.fsm.View().Meta().GetAppliedTerm())
	r.applied.Add(1)
}

// Snapshot implements raft.FSM.
func (r *raftFSM) Snapshot() (raft.FSMSnapshot, error) {
	s, err := r.fsm.Snapshot()
	if err != nil {
		return nil, err
	}
	return raftSnapshot{s, r.meter.Mark(), &r.meter}, nil
}

// Restore implements raft.FSM.
func (r *raftFSM) Restore(rc io.ReadCloser) error {
	err := r.fsm.Restore(rc)
	if err == nil {
		r.meter.Store(r.meter.Mark()) // it is on disk
	}
	// failpoint: snapshot-restored
	return errors.Join(err, rc.Close())
}

type raftSnapshot struct {
	snap  io.WriterTo
	has   raftstore.LogSize
	meter *raftstore.Meter
}

// Persist implements raft.FSMSnapshot.
func (s raftSnapshot) Persist(sink raft.SnapshotSink) error {
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
func (raftSnapshot) Release() {}

package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/identity"
	"github.com/holdfast-metal/holdfast/cluster/internal/marks"
	"github.com/holdfast-metal/holdfast/cluster/internal/raftfsm"
	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
	"github.com/holdfast-metal/holdfast/fsm"
)

// termsAhead is how far the term of a recovered peer is advanced. It must exceed all terms
// that lost peers may have reached, so that epochs never decrease.
const termsAhead = 1000

// Recovery is the result of Recover.
type Recovery struct {
	PeerID, ClusterID string
	Servers           []string  // of the newest configuration, with their suffrage
	SnapshotIndex     uint64    // zero if there is no snapshot
	LastIndex         uint64    // of the newest entry, committed or not
	LastTerm          uint64    // its term
	Now               time.Time // the time of the newest command
	Machines          int
	ActiveRuns        []string // Recover fails them
	NewClusterID      string   // empty for a dry run
	// Dropped is the number of entries that were left out; no peer has applied them.
	Dropped uint64
	// Stale is why the directory has lost its vote: others remembered a later state. It is empty if
	// it has not.
	Stale string
}

// Recover turns a peer that has permanently lost the others into the only peer of a new
// cluster, with its state. It is the last resort if the majority does not come back. All
// its entries count as committed. Writes that the others acknowledged but this peer lacks
// are lost. It fails while the peer runs. A dry run changes nothing. A directory that lost its vote
// because it is old is allowed: it may be the best one that is left.
//
// If before is not zero, that entry and all later ones are left out, because no peer can apply it.
func Recover(dataDir string, before uint64, dry bool, log *slog.Logger) (_ *Recovery, err error) {
	ident, err := identity.Read(dataDir)
	if err != nil {
		return nil, fmt.Errorf("recover from %s: %w", dataDir, err)
	}
	cfg := &Config{PeerID: ident.Get().PeerID, DataDir: dataDir, Logger: log}
	cfg.setDefaults()
	sc := raftstore.Config{Dir: dataDir, Logger: log, ReadOnly: dry, Offline: true}
	if err := ident.Get().ExpectLog(&sc); err != nil {
		return nil, fmt.Errorf("recover from %s: %w", dataDir, err)
	}
	defer raftstore.FaultsPanic()()
	s, err := raftstore.Open(&sc)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if has, err := s.HasState(); err != nil || !has {
		return nil, errors.Join(fmt.Errorf("recover from %s: no raft state found", dataDir), err)
	}
	if !ident.Get().Admitted && ident.Get().Stale == "" {
		return nil, fmt.Errorf("recover from %s: peer %s lost its data and had not caught up "+
			"when the others were lost: its state is incomplete: recover from another peer", dataDir, ident.Get().PeerID)
	}
	defer raftstore.Damage("recover from "+dataDir, &err)
	return recoverFrom(cfg, ident, s, before, dry)
}

func recoverFrom(cfg *Config, ident *identity.Store, s *raftstore.Stores, before uint64, dry bool) (*Recovery, error) {
	r := &Recovery{PeerID: cfg.PeerID, ClusterID: ident.Get().ClusterID, Stale: ident.Get().Stale}
	addr, trans := raft.NewInmemTransport("")
	defer func() { _ = trans.Close() }()
	conf, err := raft.GetConfiguration(raftConfig(cfg, false, make(chan bool, 1)), raftfsm.New(fsm.New()),
		s.Logs, s.Stable, s.Snaps, trans)
	if err != nil {
		return nil, fmt.Errorf("read the raft configuration: %w", err)
	}
	self := raft.Server{ID: raft.ServerID(cfg.PeerID), Suffrage: raft.Voter, Address: addr}
	for _, srv := range conf.Servers {
		r.Servers = append(r.Servers, fmt.Sprintf("%s (%s)", srv.ID, srv.Suffrage))
		if srv.ID == self.ID {
			self.Address = srv.Address
		}
	}
	state, err := replay(s, r, before)
	if err != nil {
		return nil, err
	}
	view := state.View()
	r.Now = view.Meta().GetNow().AsTime()
	for range view.Machines("") {
		r.Machines++
	}
	for run := range view.ActiveRuns() {
		r.ActiveRuns = append(r.ActiveRuns, run.GetRunId())
	}
	if dry {
		return r, nil
	}
	r.NewClusterID = uuid.NewString()
	err = ident.Update(func(rec *identity.Record) error {
		rec.ClusterID, rec.Forming, rec.Recovered = r.NewClusterID, nil, true
		rec.Admitted, rec.Stale = true, "" // nobody remembers marks in the new cluster
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := marks.Reset(s, cfg.PeerID, ident.Get().Instance, s.VoteFile()); err != nil {
		return nil, err
	}
	term, err := s.Term()
	if err != nil {
		return nil, fmt.Errorf("read the term: %w", err)
	}
	if err := s.SetTerm(max(term, r.LastTerm) + termsAhead); err != nil {
		return nil, fmt.Errorf("write the term: %w", err)
	}
	only := fsm.New()
	recovering := &recoveringFSM{state: only, FSM: raftfsm.New(only), clusterID: r.NewClusterID, before: before}
	err = raft.RecoverCluster(raftConfig(cfg, false, make(chan bool, 1)), recovering, s.Logs, s.Stable, s.Snaps, trans,
		raft.Configuration{Servers: []raft.Server{self}})
	if err != nil {
		return nil, fmt.Errorf("write the new configuration: %w", err)
	}
	return r, nil
}

// replay returns the state after the newest entry, or after the last one before an index that is
// not zero.
func replay(s *raftstore.Stores, r *Recovery, before uint64) (_ *fsm.FSM, err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *fsm.PanicError:
			err = v
		default:
			panic(v)
		}
	}()
	state := fsm.New()
	snaps, err := s.Snaps.List()
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	if len(snaps) > 0 {
		meta, rc, err := s.Snaps.Open(snaps[0].ID)
		if err != nil {
			return nil, fmt.Errorf("open snapshot %s: %w", snaps[0].ID, err)
		}
		r.SnapshotIndex, r.LastIndex, r.LastTerm = meta.Index, meta.Index, meta.Term
		if err := errors.Join(state.Restore(rc), rc.Close()); err != nil {
			return nil, err
		}
	}
	last, err := s.Logs.LastIndex()
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	if before > 0 {
		if before <= r.SnapshotIndex || before > last {
			return nil, fmt.Errorf("leave out the entries from %d: the log has those from %d to %d",
				before, r.SnapshotIndex+1, last)
		}
		r.Dropped, last = last-before+1, before-1
	}
	for i := r.SnapshotIndex + 1; i <= last; i++ {
		var l raft.Log
		if err := s.Logs.GetLog(i, &l); err != nil {
			return nil, fmt.Errorf("read entry %d: %w", i, err)
		}
		if l.Type == raft.LogCommand {
			state.Apply(l.Index, l.Term, l.Data)
		}
		if err := state.HaltError(); err != nil {
			return nil, err
		}
		r.LastIndex, r.LastTerm = l.Index, l.Term
	}
	return state, nil
}

// recoveringFSM writes the snapshot from which a recovered peer starts.
type recoveringFSM struct {
	*raftfsm.FSM
	state     *fsm.FSM
	clusterID string
	before    uint64 // the first entry that is left out; zero: none
}

// Apply implements raft.FSM.
func (r *recoveringFSM) Apply(l *raft.Log) any {
	if r.before > 0 && l.Index >= r.before {
		r.state.Observe(l.Index, l.Term)
		return nil
	}
	return r.FSM.Apply(l)
}

// Snapshot implements raft.FSM.
func (r *recoveringFSM) Snapshot() (raft.FSMSnapshot, error) {
	why := "the majority was lost and the cluster recovered from one peer: " +
		"the recorded outcome of this run may be wrong; check the machine first"
	if _, err := r.state.Recover(r.clusterID, why); err != nil {
		return nil, err
	}
	return r.FSM.Snapshot()
}

// Verification is the result of Verify.
type Verification struct {
	PeerID, ClusterID string // the cluster id is empty if the peer has never been in one
	Stores            []VerifiedStore
}

// VerifiedStore is the result for one store of a data directory.
type VerifiedStore = raftstore.Verified

// Damaged returns the first store that is damaged, or nil.
func (v *Verification) Damaged() *VerifiedStore {
	for i := range v.Stores {
		if v.Stores[i].Damage != nil {
			return &v.Stores[i]
		}
	}
	return nil
}

// DamageAdvice is the remedy for a damaged store.
const DamageAdvice = raftstore.DamageAdvice

// Verify verifies the checksums and the completeness of everything that Raft has stored in the data
// directory of a stopped peer. It changes nothing, and fails while the peer runs.
func Verify(dataDir string) (*Verification, error) {
	ident, err := identity.Read(dataDir)
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", dataDir, err)
	}
	sc := raftstore.Config{Dir: dataDir, ReadOnly: true, Logger: slog.New(slog.DiscardHandler)}
	if err := ident.Get().ExpectLog(&sc); err != nil {
		return nil, fmt.Errorf("verify %s: %w", dataDir, err)
	}
	stores, err := raftstore.Verify(&sc)
	if err != nil {
		return nil, err
	}
	return &Verification{PeerID: ident.Get().PeerID, ClusterID: ident.Get().ClusterID, Stores: stores}, nil
}

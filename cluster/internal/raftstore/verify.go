package raftstore

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// Verified is the result for one store of a data directory.
type Verified struct {
	Store    string // the stable store, the log or the snapshots
	File     string // relative to the data directory; the damaged one if there is damage
	Contents string // for people
	Index    uint64 // of the first damaged entry or snapshot; zero if unknown
	Damage   error  // nil if everything verifies
}

// verifier verifies a data directory.
type verifier struct {
	cfg      *Config
	bolt     *raftboltdb.BoltStore
	term     uint64 // in the stable store
	snapshot uint64 // the index of the newest snapshot
}

// Verify reads everything that Raft has stored in a data directory, and changes nothing. It
// returns one result for each store. It returns an error if a peer uses the directory.
func Verify(cfg *Config) ([]Verified, error) {
	defer FaultsPanic()()
	v := &verifier{cfg: cfg}
	stable, err := v.stable()
	if v.bolt != nil {
		defer func() { _ = v.bolt.Close() }() // it was only read
	}
	switch {
	case errors.Is(err, errInUse):
		return nil, err
	case err != nil:
		v.term = math.MaxUint64 // unknown
	}
	snapshots := v.snapshots()
	all := []Verified{stable}
	if v.bolt != nil {
		all = append(all, v.log())
	} else {
		all = append(all, Verified{Store: "log", File: raftFile, Contents: "not verified: it is unknown where the log is"})
	}
	return append(all, snapshots), nil
}

// stable verifies the pages of raft.db, the term and the vote. It opens the file, so that no peer
// can start meanwhile. The error is that of the result.
func (v *verifier) stable() (out Verified, err error) {
	out = Verified{Store: "stable store", File: raftFile}
	defer func() { out.Damage = err }()
	defer caught(&err)
	path := filepath.Join(v.cfg.Dir, raftFile)
	if err := errors.Join(v.cfg.checkLogFile(path), walkBolt(path)); err != nil {
		return out, plain(err)
	}
	bolt, err := raftboltdb.New(raftboltdb.Options{
		Path: path, MsgpackUseNewTimeFormat: true,
		BoltOptions: &bbolt.Options{ReadOnly: true, Timeout: time.Second},
	})
	if err != nil {
		return out, boltError(path, err)
	}
	v.bolt = bolt
	if err := v.cfg.checkLogState(bolt); err != nil {
		return out, plain(err)
	}
	if v.term, err = number(bolt, keyCurrentTerm); err != nil {
		return out, err
	}
	voted, err := number(bolt, keyLastVoteTerm)
	if err != nil {
		return out, err
	}
	if voted > v.term {
		return out, fmt.Errorf("it has a vote in term %d, but term %d", voted, v.term)
	}
	out.Contents = fmt.Sprintf("term %d", v.term)
	if candidate, err := bolt.Get(keyLastVoteCand); err == nil && voted > 0 {
		out.Contents += fmt.Sprintf(", vote for %s in term %d", candidate, voted)
	}
	return out, nil
}

// plain returns an error without its remedy, which is the same for all damage.
func plain(err error) error {
	if lost, ok := errors.AsType[*lostLogError](err); ok {
		return errors.New(lost.how)
	}
	return err
}

// number returns a number of the stable store, or zero.
func number(bolt raft.StableStore, key []byte) (uint64, error) {
	n, err := bolt.GetUint64(key)
	if errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", key, err)
	}
	return n, nil
}

// caught converts a panic over damaged files into an error.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the files are damaged: %v", p)
	}
}

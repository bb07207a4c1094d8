package raftstore

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"
)

// crashing is a stable store that crashes at the n-th write.
type crashing struct {
	*raft.InmemStore
	left int
}

var errCrash = errors.New("crash")

func (c *crashing) Set(k, v []byte) error {
	if c.left--; c.left < 0 {
		return errCrash
	}
	return c.InmemStore.Set(k, v)
}

func (c *crashing) SetUint64(k []byte, v uint64) error {
	if c.left--; c.left < 0 {
		return errCrash
	}
	return c.InmemStore.SetUint64(k, v)
}

// persistVote writes a granted vote like Raft.
func persistVote(s raft.StableStore, term uint64, candidate string) error {
	if err := s.SetUint64(keyLastVoteTerm, term); err != nil {
		return err
	}
	return s.Set(keyLastVoteCand, []byte(candidate))
}

func TestVoteSurvivesCrashBetweenWrites(t *testing.T) {
	for writes := range 3 {
		disk := raft.NewInmemStore()
		if err := persistVote(&voteStore{StableStore: disk}, 4, "a"); err != nil {
			t.Fatal(err)
		}
		err := persistVote(&voteStore{StableStore: &crashing{disk, writes}}, 5, "b")
		if crashed := writes < 2; errors.Is(err, errCrash) != crashed {
			t.Fatalf("%d writes: got %v, want a crash: %t", writes, err, crashed)
		}
		restarted := &voteStore{StableStore: disk}
		term, _ := restarted.GetUint64(keyLastVoteTerm)
		cand, _ := restarted.Get(keyLastVoteCand)
		if term == 5 && string(cand) != "b" {
			t.Errorf("after a crash at write %d: got a vote of term 5 for %s, which never got it", writes, cand)
		}
		if writes == 2 && (term != 5 || string(cand) != "b") {
			t.Errorf("stored vote: got term %d for %s", term, cand)
		}
	}
	s := &voteStore{StableStore: raft.NewInmemStore()}
	if err := s.SetUint64([]byte("CurrentTerm"), 9); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.GetUint64([]byte("CurrentTerm")); got != 9 {
		t.Errorf("another key: got %d, want 9", got)
	}
}

package cluster

import (
	"errors"
	"io"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/fsm"
)

func TestTrailing(t *testing.T) {
	for _, tt := range []struct {
		name string
		most uint64
		w    logSize
		want uint64
	}{
		{"small entries", 10240, logSize{8192, 8192 * 300}, 10240},
		{"leases of 100,000 agents", 10240, logSize{1000, 200_000 * 1000}, trailingBytes / 200_000},
		{"as large as they may be", 10240, logSize{300, 300 << 22}, minTrailing},
		{"fewer are asked for", 32, logSize{300, 300 << 22}, 32},
		{"none", 10240, logSize{}, 10240},
		{"without bytes", 10240, logSize{500, 0}, 10240},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := trailing(tt.most, tt.w); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// sink stores a snapshot, or fails.
type sink struct {
	err error
}

func (s sink) Write(p []byte) (int, error) { return len(p), s.err }
func (s sink) Close() error                { return s.err }
func (sink) ID() string                    { return "s" }
func (sink) Cancel() error                 { return nil }

// Only entries in a stored snapshot are subtracted, not those that came while it was
// written, and none of a failed snapshot.
func TestScale(t *testing.T) {
	f := &raftFSM{fsm: fsm.New()}
	index := uint64(0)
	apply := func() {
		index++
		f.Apply(&raft.Log{Index: index, Term: 1})
		f.meter.add(make([]byte, 100))
	}
	take := func() raft.FSMSnapshot {
		s, err := f.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	want := func(what string, w logSize) {
		t.Helper()
		if got := f.meter.since(); got != w {
			t.Errorf("%s: got %+v, want %+v", what, got, w)
		}
	}
	apply()
	old := take()
	apply()
	s := take()
	apply()
	broken := errors.New("disk full")
	if err := s.Persist(sink{broken}); !errors.Is(err, broken) {
		t.Fatalf("got %v, want %v", err, broken)
	}
	want("a snapshot that failed", logSize{6, 300})
	if err := s.Persist(sink{}); err != nil {
		t.Fatal(err)
	}
	want("one that is stored", logSize{2, 100})
	if err := old.Persist(sink{}); err != nil {
		t.Fatal(err)
	}
	want("an older one after it", logSize{2, 100})
	r, w := io.Pipe()
	go func() {
		snap, err := fsm.New().Snapshot()
		if err == nil {
			_, err = snap.WriteTo(w)
		}
		w.CloseWithError(err)
	}()
	if err := f.Restore(r); err != nil {
		t.Fatal(err)
	}
	want("one that came from the leader", logSize{})
}

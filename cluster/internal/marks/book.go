package marks

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Store keeps the book of a peer on disk, in the file that has its term and its vote.
type Store interface {
	// Marks returns what SetMarks has stored, or nil.
	Marks() ([]byte, error)
	// SetMarks returns when the book is on disk.
	SetMarks(book []byte) error
}

// peersKept is how many peers' marks are remembered.
const peersKept = 64

// book is the marks of a peer's own directory, and those that it remembers of others.
type book struct {
	store Store

	mu  sync.Mutex
	rec *internalv1.MarkBook // on disk, and never changed
}

// ErrForeign means that the files of a data directory belong to another peer.
var ErrForeign = errors.New("it belongs to another peer")

// openBook reads a book. It returns ErrForeign if it is another peer's.
func openBook(store Store, self string) (*book, error) {
	b := &book{store: store, rec: &internalv1.MarkBook{}}
	data, err := store.Marks()
	if err == nil {
		err = proto.Unmarshal(data, b.rec)
	}
	if err != nil {
		return nil, fmt.Errorf("read the marks of the data directory: %w", err)
	}
	if id := b.rec.GetPeerId(); id != "" && id != self {
		return nil, fmt.Errorf("the raft log is of peer %q: %w", id, ErrForeign)
	}
	return b, nil
}

// get returns the record, which must not be changed.
func (b *book) get() *internalv1.MarkBook {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rec
}

// change replaces the record by a changed copy. If it returns nil, that is on disk. do reports
// whether it has changed anything.
func (b *book) change(do func(*internalv1.MarkBook) bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	rec := &internalv1.MarkBook{
		PeerId: b.rec.GetPeerId(), ClusterId: b.rec.GetClusterId(), Own: b.rec.GetOwn(),
		Known: maps.Clone(b.rec.GetKnown()), Born: b.rec.GetBorn(), Stopped: b.rec.GetStopped(),
	}
	if !do(rec) {
		return nil
	}
	data, err := proto.Marshal(rec)
	if err == nil {
		err = b.store.SetMarks(data)
	}
	if err != nil {
		return fmt.Errorf("write the marks of the data directory: %w", err)
	}
	b.rec = rec
	return nil
}

// learn remembers marks of other peers of a cluster that are newer than the remembered ones.
func (b *book) learn(cluster string, told map[string]*internalv1.Marks) error {
	rec := b.get()
	changed := rec.GetClusterId() != cluster
	for id, m := range told {
		changed = changed || follows(m, rec.GetKnown()[id])
	}
	if !changed {
		return nil
	}
	return b.change(func(r *internalv1.MarkBook) bool {
		if r.GetClusterId() != cluster || r.Known == nil { // those of another cluster prove nothing here
			r.ClusterId, r.Known = cluster, map[string]*internalv1.Marks{}
		}
		for _, id := range slices.Sorted(maps.Keys(told)) {
			_, known := r.GetKnown()[id]
			if (known || len(r.GetKnown()) < peersKept) && follows(told[id], r.GetKnown()[id]) {
				r.Known[id] = told[id]
			}
		}
		return true
	})
}

// told reports whether another peer may have learned the newest mark of this directory.
func (b *book) told() bool { return toldIn(b.get()) }

func toldIn(r *internalv1.MarkBook) bool {
	last, told := Newest(r.GetOwn()), r.GetKnown()[r.GetPeerId()]
	return last != nil && last.GetInstance() == told.GetInstance() && last.GetCount() == told.GetCount() &&
		has(last, told)
}

// tell records that the newest mark is told to peers of a cluster.
func (b *book) tell(cluster string) error {
	if rec := b.get(); rec.GetClusterId() == cluster && toldIn(rec) {
		return nil
	}
	return b.change(func(r *internalv1.MarkBook) bool {
		last := Newest(r.GetOwn())
		if last == nil {
			return false
		}
		if r.GetClusterId() != cluster || r.Known == nil {
			r.ClusterId, r.Known = cluster, map[string]*internalv1.Marks{}
		}
		r.Known[r.GetPeerId()] = last
		return true
	})
}

// others returns what a book remembers of other peers.
func others(r *internalv1.MarkBook) map[string]*internalv1.Marks {
	var all map[string]*internalv1.Marks
	for id, m := range r.GetKnown() {
		if id != r.GetPeerId() {
			if all == nil {
				all = map[string]*internalv1.Marks{}
			}
			all[id] = m
		}
	}
	return all
}

// mark adds a new mark to a directory. One that was never told is replaced, so that a peer which
// starts often without meeting another one keeps the marks that the others remember.
func mark(r *internalv1.MarkBook) {
	own := r.GetOwn()
	if last := Newest(own); last != nil && !toldIn(r) {
		own = &internalv1.Marks{Instance: own.GetInstance(), AdmittedAt: own.GetAdmittedAt(), Count: own.GetCount() - 1,
			Ids: own.GetIds()[:len(own.GetIds())-1]}
	}
	r.Own = add(own, random())
}

func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}

package raftstore

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/types"
	"pgregory.net/rapid"
)

// errDead is returned by everything that a dead peer tries to write.
var errDead = errors.New("the peer is dead")

// errSync is returned by a sync that fails.
var errSync = errors.New("input/output error")

// power is the time until a peer dies, in writes and syncs, and what its disk does not have. The
// page cache outlives the process. Writes that were not synced before a power cut may be on the
// disk, each sector by itself, and so may the names of new files.
type power struct {
	mu     sync.Mutex // guards the rest, because segments are added in the background
	left   int
	fail   int // syncs until one fails; negative for none
	writes []unsynced
	names  map[string]string // path → directory of files whose names are not on the disk
}

func newPower() *power { return &power{left: math.MaxInt, fail: -1, names: map[string]string{}} }

type unsynced struct {
	path string
	at   int64
	old  []byte
	// clean is set by a sync that failed: the next one takes the page for written.
	clean bool
}

// use reports whether there is still power.
func (p *power) use() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left--
	return p.left >= 0
}

func (p *power) set(left, fail int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.fail = left, fail
}

func (p *power) out() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left < 0
}

// sync syncs a file.
func (p *power) sync(path string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail--
	failed := p.fail == -1
	covered := func(w unsynced) bool {
		return slices.ContainsFunc(p.writes, func(by unsynced) bool {
			return !by.clean && by.path == path && by.at <= w.at && by.at+int64(len(by.old)) >= w.at+int64(len(w.old))
		})
	}
	var left []unsynced
	for _, w := range p.writes {
		switch {
		case w.path != path, w.clean && !covered(w):
			left = append(left, w)
		case failed:
			w.clean = true
			left = append(left, w)
		}
	}
	if p.writes = left; failed {
		return errSync
	}
	return nil
}

// syncDir syncs the names of files.
func (p *power) syncDir(dir string) error {
	if !p.use() {
		return errDead
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.names, func(_, in string) bool { return in == dir })
	return nil // the real one costs time, and proves nothing here
}

// cut loses sectors of writes, and names, that were not synced.
func (p *power) cut(t *rapid.T) {
	const sector = 512
	for _, w := range slices.Backward(p.writes) {
		f, err := os.OpenFile(w.path, os.O_WRONLY, 0)
		if errors.Is(err, os.ErrNotExist) { // removed since
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for from := int64(0); from < int64(len(w.old)); {
			to := min(from+sector-(w.at+from)%sector, int64(len(w.old)))
			if rapid.Bool().Draw(t, "lost") {
				if _, err := f.WriteAt(w.old[from:to], w.at+from); err != nil {
					t.Fatal(err)
				}
			}
			from = to
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(p.names)) {
		if rapid.Bool().Draw(t, "name lost") {
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
	p.writes, p.names = nil, map[string]string{}
}

// losingFS opens files that lose unsynced writes.
type losingFS struct {
	*fs.FS
	p *power
}

func (f losingFS) Create(dir, name string, size uint64) (types.WritableFile, error) {
	if !f.p.use() {
		return nil, errDead
	}
	file, err := f.FS.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	f.p.mu.Lock()
	f.p.names[path] = dir
	f.p.mu.Unlock()
	return &losing{file, f.p, path, true}, nil
}

func (f losingFS) OpenWriter(dir, name string) (types.WritableFile, error) {
	file, err := f.FS.OpenWriter(dir, name)
	if err != nil {
		return nil, err
	}
	return &losing{file, f.p, filepath.Join(dir, name), false}, nil
}

type losing struct {
	types.WritableFile
	p       *power
	path    string
	created bool // by this process: the library then syncs the name with the file
}

func (l *losing) WriteAt(b []byte, at int64) (int, error) {
	if !l.p.use() {
		return 0, errDead
	}
	old := make([]byte, len(b))
	_, _ = l.WritableFile.ReadAt(old, at) // behind its end are zeros
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.p.writes = append(l.p.writes, unsynced{path: l.path, at: at, old: old})
	return l.WritableFile.WriteAt(b, at)
}

func (l *losing) Sync() error {
	if !l.p.use() {
		return errDead
	}
	if err := l.p.sync(l.path); err != nil || !l.created {
		return err
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	delete(l.p.names, l.path)
	return nil
}

// list is the list of segments of a peer that dies before or after it changes the list.
type list struct {
	metadb.BoltMetaDB
	p *power
}

func (l *list) CommitState(s types.PersistentState) error {
	if !l.p.use() {
		return errDead
	}
	if err := l.BoltMetaDB.CommitState(s); err != nil || !l.p.use() {
		return errors.Join(err, errDead)
	}
	return nil
}

// TestPowerCuts kills a peer and cuts the power again and again, at any write or sync, also while
// entries are written late and while it starts. Syncs fail. No entry that the peer has ever shown
// as stored may be lost or changed, and it must always start again and go on.
func TestPowerCuts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		h := &history{t: rt, dir: dir, first: 1, power: newPower()}
		for life := range rapid.IntRange(2, 8).Draw(rt, "lives") {
			h.live(life == 0)
			if rapid.Bool().Draw(rt, "power cut") { // else the process was killed
				h.power.cut(rt)
			}
		}
	})
}

// history is the entries of a log.
type history struct {
	t     *rapid.T
	dir   string
	first uint64
	texts []string
	// stored is how many of the texts were stored, and must stay. That includes what a start has
	// found: Raft acknowledges it without another write.
	stored int
	logs   *lateWrites
	power  *power
}

// live opens the log, compares it, and changes it until the peer dies.
func (h *history) live(fresh bool) {
	p := h.power
	path := filepath.Join(h.dir, walDir)
	cfg := storeConfig(h.dir, LogStoreWAL)
	cfg.segmentSize, cfg.vfs, cfg.list, cfg.syncDir = 2048, losingFS{fs.New(), p}, &list{p: p}, p.syncDir
	p.set(math.MaxInt, -1)
	if !fresh && rapid.IntRange(0, 3).Draw(h.t, "start fails") == 0 {
		p.set(rapid.IntRange(0, 12).Draw(h.t, "power at start"), rapid.IntRange(-1, 2).Draw(h.t, "good syncs at start"))
	}
	bolt, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(h.dir, raftFile), NoSync: true})
	if err != nil {
		h.t.Fatal(err)
	}
	f, err := openWALLogs(cfg, path, bolt, fresh)
	if errors.Is(err, errDead) || errors.Is(err, errSync) {
		if err := errors.Join(cfg.list.Close(), bolt.Close()); err != nil { // as the end of the process does
			h.t.Fatal(err)
		}
		return
	}
	if err != nil {
		h.t.Fatalf("open: %v", err)
	}
	h.logs = newLateWrites(&checksumLogs{LogStore: f, damaged: func(error) {}})
	h.logs.may = func() bool { return rapid.Bool().Draw(h.t, "late") }
	h.compare()
	p.set(rapid.IntRange(0, 60).Draw(h.t, "power"), rapid.IntRange(-1, 20).Draw(h.t, "good syncs"))
	for err == nil {
		err = h.step()
		h.noteStored()
	}
	_ = h.logs.settle(math.MaxUint64)                                           // no write goes on
	if !p.out() && !errors.Is(err, errSync) && !errors.Is(err, wal.ErrSealed) { // its rotation failed
		h.t.Fatalf("with power: got %v", err)
	}
	p.set(-1, -1)
	if err := errors.Join(f.WAL.Close(), bolt.Close()); err != nil { // the low-water mark stays
		h.t.Fatal(err)
	}
}

// noteStored notes which entries are stored.
func (h *history) noteStored() {
	for ; h.stored < len(h.texts); h.stored++ {
		if ok, _ := h.logs.synced(h.first + uint64(h.stored)); !ok {
			return
		}
	}
}

// compare checks that all entries are there that were stored. Others may follow, and then stay.
func (h *history) compare() {
	last, err := h.logs.LastIndex()
	if err != nil {
		h.t.Fatal(err)
	}
	var got []string
	for i := h.first; i <= last; i++ {
		var l raft.Log
		if err := h.logs.GetLog(i, &l); err != nil {
			h.t.Fatalf("read entry %d: %v", i, err)
		}
		got = append(got, string(l.Data))
	}
	if len(got) < h.stored {
		h.t.Fatalf("got %d entries from %d, want at least %d", len(got), h.first, h.stored)
	}
	both := min(len(got), len(h.texts))
	if diff := cmp.Diff(h.texts[:both], got[:both], cmpopts.EquateEmpty()); diff != "" {
		h.t.Fatalf("entries from %d (-want +got):\n%s", h.first, diff)
	}
	h.texts, h.stored = got, len(got)
}

// step adds entries, or removes some from the beginning or the end. Raft removes entries from the
// beginning after a snapshot, and from the end when another leader has others.
func (h *history) step() error {
	kind, n := rapid.IntRange(0, 9).Draw(h.t, "kind"), rapid.IntRange(1, 4).Draw(h.t, "entries")
	end := h.first + uint64(len(h.texts))
	some := min(n, len(h.texts)-1) // Raft keeps some entries
	switch {
	case kind == 0 && min(some, h.stored) > 0:
		some = min(some, h.stored)       // a snapshot covers only committed entries, which are on disk
		from, err := h.logs.FirstIndex() // below h.first after a removal that failed
		if err != nil {
			return err
		}
		h.first += uint64(some)
		h.texts, h.stored = h.texts[some:], max(0, h.stored-some)
		return h.logs.DeleteRange(from, h.first-1)
	case kind == 1 && some > 0:
		h.texts = h.texts[:len(h.texts)-some]
		h.stored = min(h.stored, len(h.texts))
		return h.logs.DeleteRange(end-uint64(some), end-1)
	}
	var logs []*raft.Log
	var texts []string
	for i := range n {
		text := fmt.Sprintf("%d %x %s", i, rapid.Uint64().Draw(h.t, "text"),
			strings.Repeat("x", rapid.IntRange(0, 300).Draw(h.t, "size")))
		texts = append(texts, text)
		logs = append(logs, &raft.Log{Index: end + uint64(i), Term: 1, Data: []byte(text)})
	}
	if err := h.logs.StoreLogs(logs); err != nil {
		return err
	}
	h.texts = append(h.texts, texts...)
	return nil
}

package raftstore

import (
	"errors"
	"fmt"
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
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"pgregory.net/rapid"
)

// errDead is returned by everything that a dead peer tries to write.
var errDead = errors.New("the peer is dead")

// power is the time until a power cut, in writes and syncs. Writes that were not synced then may be
// on the disk, each sector by itself.
type power struct {
	mu     sync.Mutex // guards the rest, because segments are added in the background
	left   int
	writes []unsynced
}

type unsynced struct {
	file types.WritableFile
	at   int64
	old  []byte
}

// use reports whether there is still power.
func (p *power) use() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left--
	return p.left >= 0
}

func (p *power) set(left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = left
}

func (p *power) out() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left < 0
}

// cut loses sectors of writes that were not synced.
func (p *power) cut(t *rapid.T) {
	const sector = 512
	for _, w := range slices.Backward(p.writes) {
		for from := int64(0); from < int64(len(w.old)); {
			to := min(from+sector-(w.at+from)%sector, int64(len(w.old)))
			if rapid.Bool().Draw(t, "lost") {
				if _, err := w.file.WriteAt(w.old[from:to], w.at+from); err != nil {
					t.Fatal(err)
				}
			}
			from = to
		}
	}
	p.writes = nil
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
	return &losing{file, f.p}, err
}

func (f losingFS) OpenWriter(dir, name string) (types.WritableFile, error) {
	file, err := f.FS.OpenWriter(dir, name)
	if err != nil {
		return nil, err
	}
	return &losing{file, f.p}, nil
}

type losing struct {
	types.WritableFile
	p *power
}

func (l *losing) WriteAt(b []byte, at int64) (int, error) {
	if !l.p.use() {
		return 0, errDead
	}
	old := make([]byte, len(b))
	_, _ = l.WritableFile.ReadAt(old, at) // behind its end are zeros
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.p.writes = append(l.p.writes, unsynced{l.WritableFile, at, old})
	return l.WritableFile.WriteAt(b, at)
}

func (l *losing) Sync() error {
	if !l.p.use() {
		return errDead
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.p.writes = nil
	return nil // the real one costs time, and proves nothing here
}

func (l *losing) Close() error { return nil } // a power cut still changes it

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

// TestPowerCuts cuts the power again and again, at any write or sync, also while entries are
// written late. No entry that was on disk may be lost or changed, and the peer must always start
// again and go on.
func TestPowerCuts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		h := &history{t: rt, dir: dir, first: 1}
		for life := range rapid.IntRange(2, 6).Draw(rt, "lives") {
			h.live(life == 0)
		}
	})
}

// history is the entries of a log.
type history struct {
	t      *rapid.T
	dir    string
	first  uint64
	texts  []string
	onDisk int // how many of the texts are on disk, and must stay
	logs   *lateWrites
}

// live opens the log, compares it, and changes it until the power is cut.
func (h *history) live(fresh bool) {
	p := &power{left: math.MaxInt}
	path := filepath.Join(h.dir, walDir)
	cfg := storeConfig(h.dir, LogStoreWAL)
	cfg.segmentSize, cfg.filer, cfg.list = 2048, segment.NewFiler(path, losingFS{fs.New(), p}), &list{p: p}
	bolt, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(h.dir, raftFile), NoSync: true})
	if err != nil {
		h.t.Fatal(err)
	}
	f, err := openWALLogs(cfg, path, bolt, fresh)
	if err != nil {
		h.t.Fatalf("open: %v", err)
	}
	h.logs = newLateWrites(&checksumLogs{LogStore: f, damaged: func(error) {}})
	h.logs.may = func() bool { return rapid.Bool().Draw(h.t, "late") }
	h.compare()
	p.set(rapid.IntRange(1, 60).Draw(h.t, "power"))
	for err == nil {
		err = h.step()
		h.look()
	}
	_ = h.logs.settle(math.MaxUint64) // no write goes on
	if !p.out() {
		h.t.Fatalf("with power: got %v", err)
	}
	if err := errors.Join(f.WAL.Close(), bolt.Close()); err != nil { // the low-water mark stays
		h.t.Fatal(err)
	}
	p.cut(h.t)
}

// look notes which entries are on disk.
func (h *history) look() {
	for ; h.onDisk < len(h.texts); h.onDisk++ {
		if ok, _ := h.logs.synced(h.first + uint64(h.onDisk)); !ok {
			return
		}
	}
}

// compare checks that all entries are there that were on disk. Others may follow, and then stay.
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
	if len(got) < h.onDisk {
		h.t.Fatalf("got %d entries from %d, want at least %d", len(got), h.first, h.onDisk)
	}
	both := min(len(got), len(h.texts))
	if diff := cmp.Diff(h.texts[:both], got[:both], cmpopts.EquateEmpty()); diff != "" {
		h.t.Fatalf("entries from %d (-want +got):\n%s", h.first, diff)
	}
	h.texts, h.onDisk = got, len(got)
}

// step adds entries, or removes some from the beginning or the end. Raft removes entries from the
// beginning after a snapshot, and from the end when another leader has others.
func (h *history) step() error {
	kind, n := rapid.IntRange(0, 9).Draw(h.t, "kind"), rapid.IntRange(1, 4).Draw(h.t, "entries")
	end := h.first + uint64(len(h.texts))
	some := min(n, len(h.texts)-1) // Raft keeps some entries
	switch {
	case kind == 0 && min(some, h.onDisk) > 0:
		some = min(some, h.onDisk)       // a snapshot covers only committed entries, which are on disk
		from, err := h.logs.FirstIndex() // below h.first after a removal that failed
		if err != nil {
			return err
		}
		h.first += uint64(some)
		h.texts, h.onDisk = h.texts[some:], max(0, h.onDisk-some)
		return h.logs.DeleteRange(from, h.first-1)
	case kind == 1 && some > 0:
		h.texts = h.texts[:len(h.texts)-some]
		h.onDisk = min(h.onDisk, len(h.texts))
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

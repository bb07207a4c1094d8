package backup

import (
	"bytes"
	"sync"
	"weak"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	// maxStagedChunk bounds a chunk of a snapshot file, in bytes. The command has to fit into
	// a Raft entry.
	maxStagedChunk = 256 << 10
	// maxStagedChunks bounds a snapshot file: 1 GiB.
	maxStagedChunks = 4096
)

// ClearStage discards the staged chunks. A new leader and each new restore do so.
func ClearStage(t *core.Tx) {
	if t.Staged.Len() > 0 {
		t.Staged = table.New(schema.Staged())
	}
}

// Stage adds a chunk of a snapshot file.
func Stage(t *core.Tx, c *internalv1.StageBackup) *refusal.Error {
	switch {
	case !lex.ValidName(c.GetRestoreId(), 64):
		return refusal.InvalidField("restore_id", "is not 1 to 64 letters, digits, '.', '_', '-' or ':'")
	case len(c.GetData()) == 0 || len(c.GetData()) > maxStagedChunk:
		return refusal.InvalidField("data", "has %d bytes, 1 to %d are allowed", len(c.GetData()), maxStagedChunk)
	case c.GetSequence() >= maxStagedChunks:
		return refusal.InvalidField("sequence", "is %d: a file has at most %d chunks", c.GetSequence(), maxStagedChunks)
	}
	if c.GetSequence() == 0 {
		if first, ok := t.Staged.Get(schema.Ordered(0)); !ok || first.GetRestoreId() != c.GetRestoreId() {
			ClearStage(t)
		}
	}
	next := uint32(t.Staged.Len())
	if first, ok := t.Staged.Get(schema.Ordered(0)); ok && first.GetRestoreId() != c.GetRestoreId() ||
		c.GetSequence() > next {
		return refusal.New(refusal.Aborted, refusal.ReasonStageGone,
			"chunk %d of restore %s is out of order: "+
				"another restore started or the leadership changed; restart the upload",
			c.GetSequence(), c.GetRestoreId())
	}
	if c.GetSequence() < next {
		return nil // a duplicate
	}
	t.Staged.Put(&internalv1.StagedChunk{RestoreId: c.GetRestoreId(), Sequence: c.GetSequence(), Data: c.GetData()})
	return nil
}

// Cache caches the file read from the stage while a caller holds it. A caller that checks
// a restore and keeps the result until it restores saves the leader a second read, which
// takes seconds for a large fleet.
type Cache struct {
	mu   sync.Mutex
	mark *table.Mark // of the stage
	file weak.Pointer[File]
}

// of returns the file of a stage: the cached one, or the result of read.
func (r *Cache) of(m *table.Mark, read func() (*File, error)) (*File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.file.Value(); b != nil && r.mark == m {
		return b, nil
	}
	b, err := read()
	if err == nil {
		r.mark, r.file = m, weak.Make(b)
	}
	return b, err
}

// Staged returns the staged snapshot file, which must have a number of chunks.
func Staged(s *core.State, cache *Cache, restoreID string, chunks uint32) (*File, *refusal.Error) {
	var file bytes.Buffer
	n := uint32(0)
	for c := range s.Staged.Ascend("", "") {
		if c.GetRestoreId() != restoreID {
			break
		}
		file.Write(c.GetData())
		n++
	}
	if n == 0 || n != chunks || int(n) != s.Staged.Len() {
		return nil, refusal.New(refusal.Aborted, refusal.ReasonStageGone,
			"restore %s has %d of %d chunks staged: "+
				"another restore started or the leadership changed; restart the upload",
			restoreID, n, chunks)
	}
	b, err := cache.of(s.Staged.Mark(), func() (*File, error) { return Read(&file, true) })
	if err != nil {
		return nil, refusal.New(refusal.InvalidArgument, "SNAPSHOT_DAMAGED", "%s", err)
	}
	return b, nil
}

// Staged returns the id of the staged restore, or an empty string.
func (v *View) Staged() string {
	first, _ := v.s.Staged.Get(schema.Ordered(0))
	return first.GetRestoreId()
}

// StagedMark returns a value that changes whenever Staged may change. Comparing it is
// cheaper, because Staged has to decode a chunk.
func (v *View) StagedMark() any { return v.s.Staged.Mark() }

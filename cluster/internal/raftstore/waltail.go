package raftstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft-wal/metadb"
	walsegment "github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	"github.com/holdfast-metal/holdfast/cluster/internal/segment"
)

// Four states of the last segment need help before raft-wal opens it:
//
//   - A last write that is complete, but was perhaps never synced: see resync.go.
//   - Damage before its last write. raft-wal would drop everything behind it, as if a crash had
//     interrupted a write.
//   - A full segment whose successor is not in the list of segments, because the peer died between
//     the two. raft-wal would refuse every write, also after a restart.
//   - An interrupted write that would have filled the segment. The same happens.

// checkTail returns an error if the last segment is damaged, or the log ends before the low-water
// mark, and repairs the other states.
func checkTail(cfg *Config, path string, lowWater uint64) error {
	list := filepath.Join(path, walMeta)
	if !cfg.ReadOnly {
		if err := cfg.resyncBolt(list); err != nil {
			return err
		}
	}
	state, err := segment.Load(path)
	if errors.Is(err, segment.ErrMissing) { // a new log
		return nil
	}
	if err != nil {
		return fmt.Errorf("open raft log %s: %w: %s", path, err, DamageAdvice)
	}
	n := len(state.Segments)
	c, open := &segment.Contents{}, n > 0 && state.Segments[n-1].SealTime.IsZero()
	switch {
	case open:
		if c, err = readTail(path, state.Segments[n-1]); err != nil {
			return err
		}
	case n > 0:
		c.Last = state.Segments[n-1].MaxIndex
	}
	if last := lastEntry(state, c); last < lowWater {
		return fmt.Errorf("open raft log %s: it ends with entry %d, but had entry %d: %s", path, last, lowWater, DamageAdvice)
	}
	if cfg.ReadOnly || !open {
		return nil
	}
	if err := repairTail(cfg, path, state, c); err != nil {
		return fmt.Errorf("open raft log %s: %w", path, err)
	}
	return nil
}

// readTail verifies a segment that is not in the list as sealed.
func readTail(path string, tail types.SegmentInfo) (*segment.Contents, error) {
	c, err := segment.Read(path, tail, nil)
	if errors.Is(err, segment.ErrMissing) { // raft-wal creates it
		return &segment.Contents{Last: tail.BaseIndex - 1}, nil
	}
	if err != nil {
		file := filepath.Join(path, walsegment.FileName(tail))
		return nil, fmt.Errorf("%w: read %s: %w: %s", errLogDamaged, file, err, DamageAdvice)
	}
	return c, nil
}

// repairTail syncs the last complete write, and finishes or erases an interrupted one.
func repairTail(cfg *Config, path string, state types.PersistentState, c *segment.Contents) error {
	name := walsegment.FileName(state.Segments[len(state.Segments)-1])
	if c.End > 0 {
		if err := errors.Join(cfg.rewrite(path, name, c.Batch, c.End), cfg.syncDirs(path)); err != nil {
			return err
		}
	}
	switch {
	case c.Index > 0:
		return rotate(path, state, c)
	case c.TornIndex:
		return cfg.erase(path, name, c.End, c.Torn)
	case c.Short: // raft-wal creates it again, with its full size
		return os.Remove(filepath.Join(path, name))
	}
	return nil
}

// lastEntry returns the last entry of the log, or 0 if it is empty. c is its last segment.
func lastEntry(state types.PersistentState, c *segment.Contents) uint64 {
	n := len(state.Segments)
	switch {
	case n > 0 && c.Last >= state.Segments[n-1].MinIndex:
		return c.Last
	case n > 1:
		return state.Segments[n-2].MaxIndex
	}
	return 0
}

// rotate adds the successor of a full segment to the list, as raft-wal would have done. raft-wal
// creates the file.
func rotate(path string, state types.PersistentState, c *segment.Contents) error {
	full := &state.Segments[len(state.Segments)-1]
	full.SealTime, full.MaxIndex, full.IndexStart = time.Now(), c.Last, uint64(c.Index)
	state.Segments = append(state.Segments, types.SegmentInfo{
		ID: state.NextSegmentID, BaseIndex: c.Last + 1, MinIndex: c.Last + 1, Codec: full.Codec,
		CreateTime: time.Now(), SizeLimit: full.SizeLimit,
	})
	state.NextSegmentID++
	list := &metadb.BoltMetaDB{}
	_, err := list.Load(path)
	if err == nil {
		err = errors.Join(list.CommitState(state), list.Close())
	}
	if err != nil {
		return fmt.Errorf("add a segment to raft log %s: %w", path, err)
	}
	return nil
}

// erase removes a write that was never acknowledged.
func (c *Config) erase(path, name string, from, to int64) error {
	f, err := c.files().OpenWriter(path, name)
	if err != nil {
		return fmt.Errorf("erase an interrupted write: %w", err)
	}
	_, err = f.WriteAt(make([]byte, to-from), from)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("erase an interrupted write: %w", err)
	}
	return nil
}

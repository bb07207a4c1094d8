package fault

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// readSegments finds the last entry of a log in segments. The files have their full length
// from the start, so only their entries show how much is used.
func readSegments(dir string) (*log, error) {
	filer := segment.NewFiler(dir, fs.New())
	all, err := filer.List()
	if err != nil {
		return nil, fmt.Errorf("list segments in %s: %w", dir, err)
	}
	ids := slices.Sorted(maps.Keys(all))
	slices.Reverse(ids) // the newest has no entry for a moment
	for _, id := range ids {
		var last []byte
		info := types.SegmentInfo{ID: id, BaseIndex: all[id]}
		l := &log{name: filepath.Join(dir, segment.FileName(info))}
		err := filer.DumpSegment(info.BaseIndex, id, 0, 0, func(_ types.SegmentInfo, e types.LogEntry) (bool, error) {
			last, l.unseen = bytes.Clone(e.Data), e.Index
			return true, nil
		})
		if err != nil {
			return nil, fmt.Errorf("read segment %s: %w", l.name, err)
		}
		if len(last) == 0 {
			continue
		}
		if err := l.find(last); err != nil {
			return nil, err
		}
		l.used = l.last[len(l.last)-1] + int64(l.size)
		return l, nil
	}
	return nil, errors.New("read segments: they have no entry")
}

// find finds all copies of the last entry in the file.
func (l *log) find(last []byte) error {
	all, err := os.ReadFile(l.name)
	if err != nil {
		return err
	}
	l.size = len(last)
	for at := 0; len(last) > 0; at++ {
		i := bytes.Index(all[at:], last)
		if i < 0 {
			break
		}
		at += i
		l.last = append(l.last, int64(at))
	}
	if len(l.last) == 0 {
		return fmt.Errorf("read log %s: its last entry was not found", l.name)
	}
	return nil
}

package raftstore

import (
	"fmt"

	"github.com/hashicorp/raft"
)

// dropReplaced removes all entries if the newest snapshot is newer. Raft does so after it has
// installed a snapshot. If the peer dies before that, segments refuse the next entry, which does
// not follow the last one, and the peer stops at each start.
func dropReplaced(logs raft.LogStore, snaps raft.SnapshotStore) error {
	if !monotonic(logs) {
		return nil
	}
	all, err := snaps.List()
	if err != nil || len(all) == 0 {
		return err
	}
	first, err := logs.FirstIndex()
	if err != nil {
		return err
	}
	last, err := logs.LastIndex()
	if err != nil || last == 0 || last >= all[0].Index {
		return err
	}
	_, contents, err := snaps.Open(all[0].ID) // verifies it
	if err != nil {
		return nil //nolint:nilerr // Raft uses an older one, and the entries after it
	}
	if err := contents.Close(); err != nil {
		return err
	}
	if err := logs.DeleteRange(first, last); err != nil {
		return fmt.Errorf("remove entries %d to %d, which snapshot %d replaces: %w", first, last, all[0].Index, err)
	}
	return nil
}

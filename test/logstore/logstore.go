// Package logstore selects the stores of the Raft logs that a suite tests. A suite runs with WAL
// segments first, as new peers do, and with bolt second. It must name the stores in its output.
package logstore

import (
	"fmt"
	"os"
	"strings"

	"github.com/holdfast-metal/holdfast/test/overlay"
)

// Variable is the environment variable that selects the stores: wal, boltdb or mixed.
const Variable = "HOLDFAST_TEST_LOG_STORE"

// The stores of Raft logs, as in --log-store. Mixed is WAL segments on all peers but one.
const (
	WAL   = "wal"
	Bolt  = "boltdb"
	Mixed = "mixed"
)

// Stores returns the store of peer i, from 0.
type Stores func(i int) string

// Selected returns the stores that Variable selects. If it is not set, these are the given ones.
// With Mixed, the peer of that number, from 0, keeps its log in bolt.
func Selected(otherwise string, odd int) (Stores, error) {
	name := os.Getenv(Variable)
	if name == "" {
		name = otherwise
	}
	switch name {
	case WAL, Bolt:
		return func(int) string { return name }, nil
	case Mixed:
		return func(i int) string {
			if i == odd {
				return Bolt
			}
			return WAL
		}, nil
	}
	return nil, fmt.Errorf("read %s=%q: want %s, %s or %s", Variable, name, WAL, Bolt, Mixed)
}

// SmallSegments changes a build: segments have 64 KiB instead of 64 MiB, so that a suite fills
// and adds some all the time.
func SmallSegments(o *overlay.Overlay) error {
	return o.Patch("cluster/internal/raftstore/logstore.go", "wal.WithSegmentSize(cfg.segmentSize)",
		"wal.WithSegmentSize(64<<10)")
}

// Args returns the arguments of peer i, from 0.
func (s Stores) Args(i int) []string { return []string{"--log-store", s(i)} }

// Text names the stores of n peers, for the output of a suite.
func (s Stores) Text(n int) string {
	var all []string
	for i := range n {
		all = append(all, s(i))
	}
	return "raft log stores: " + strings.Join(all, ", ")
}

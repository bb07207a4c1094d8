package harness

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/holdfast-metal/holdfast/test/program"
)

// atOnce is how many clusters run at once. With the race detector, more of them delay each
// other's elections on a small machine.
const atOnce = 3

// Bench is the binary under test, and room for some clusters.
type Bench struct {
	Binary string
	dir    string // of the binary; empty if it was given
	room   chan struct{}
}

// Open builds the binary with the race detector and failpoints, into a directory that Close
// removes, unless HOLDFAST_TEST_BINARY names one.
func Open(ctx context.Context) (*Bench, error) {
	b := &Bench{Binary: os.Getenv("HOLDFAST_TEST_BINARY"), room: make(chan struct{}, atOnce)}
	if b.Binary != "" {
		return b, nil
	}
	dir, err := os.MkdirTemp("", "holdfast-bin-")
	if err != nil {
		return nil, fmt.Errorf("build holdfast: %w", err)
	}
	b.dir = dir
	if b.Binary, err = (program.Build{Race: true, Tags: []string{"failpoint"}}).Into(ctx, dir); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Of returns the same bench with another binary.
func (b *Bench) Of(binary string) *Bench { return &Bench{Binary: binary, room: b.room} }

// Close removes the build.
func (b *Bench) Close() error {
	if b.dir == "" {
		return nil
	}
	return os.RemoveAll(b.dir)
}

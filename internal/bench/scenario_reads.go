package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-metal/holdfast/internal/bench/contest"
)

// pacedReads is the rate of the reads that are made whether earlier ones are answered or not.
const pacedReads = 1000

// setReads has clients read on a follower: without a pause, the same while others write, and at a
// fixed rate while others write.
func setReads(ctx context.Context, l *lab, do turns) (err error) {
	procs, leader, follower, err := l.servers(ctx)
	if err != nil {
		return err
	}
	if err := (&stock{lab: l}).fill(ctx, readFleet); err != nil {
		return err
	}
	c := &calls{lab: l, procs: procs}
	defer func() { err = errors.Join(err, c.close()) }()
	reads, err := c.to(follower, l.conns, getMachine(false))
	if err != nil {
		return err
	}
	writes, err := c.to(leader, readWriters, relabel)
	if err != nil {
		return err
	}
	c.add("reads.quiet", reads)
	c.add("reads.writes", &contest.Under{Loader: reads, Beside: writes})
	c.add(fmt.Sprintf("reads.%d/s", pacedReads),
		&contest.Under{Loader: &contest.Paced{Calls: reads, Rate: pacedReads}, Beside: writes})
	return do(ctx, l, c.all)
}

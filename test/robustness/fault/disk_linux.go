package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

// back starts a peer if it has ended because of its disk, which is allowed.
func back(ctx context.Context, c *harness.Cluster, i int) error {
	p := c.Peers()[i]
	if p.Running() {
		return nil
	}
	c.Log.Info("the peer ended because of its disk", "peer", p.ID, "error", p.Wait())
	return p.Start(ctx)
}

// fillDisk fills the disk of a peer, often the leader.
func fillDisk(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	i, err := leaderOrAny(ctx, c, rng)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := c.Disks[i].Empty(); err != nil {
			return err
		}
		settle(ctx, c, i)
		return back(ctx, c, i)
	}, c.Disks[i].Fill()
}

// hangDisk makes writes hang without an error.
func hangDisk(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	i, err := leaderOrAny(ctx, c, rng)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := c.Disks[i].Thaw(); err != nil {
			return err
		}
		settle(ctx, c, i)
		return back(ctx, c, i)
	}, c.Disks[i].Freeze()
}

// settle blocks until a peer has ended, whose exit may have hung with its disk. A peer ends within
// 2 s of a failed write; one that has not ended after 3 s goes on.
func settle(ctx context.Context, c *harness.Cluster, i int) {
	t := time.NewTimer(3 * time.Second)
	defer t.Stop()
	select {
	case <-c.Peers()[i].Done():
	case <-t.C:
	case <-ctx.Done():
	}
}

func breakDisk(_ context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	return breakDiskOf(c, rng.IntN(len(c.Peers())))
}

func breakLeadersDisk(ctx context.Context, c *harness.Cluster, _ *rand.Rand) (Heal, error) {
	i, err := c.LeaderNow(ctx)
	if err != nil {
		return nil, err
	}
	return breakDiskOf(c, i)
}

// breakDiskOf makes the file system of a running peer read-only, as Linux does if it is
// damaged. The repair is fsck, for which the peer has to be stopped.
func breakDiskOf(c *harness.Cluster, i int) (Heal, error) {
	p := c.Peers()[i]
	return func(ctx context.Context) error {
		if err := p.Kill(); err != nil {
			return err
		}
		if err := c.Disks[i].Repair(); err != nil {
			return fmt.Errorf("repair the disk of peer %s: %w", p.ID, err)
		}
		return p.Start(ctx)
	}, c.Disks[i].Break()
}

func leaderOrAny(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (int, error) {
	if rng.IntN(3) == 0 {
		return rng.IntN(len(c.Peers())), nil
	}
	return c.LeaderNow(ctx)
}

package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/cmd/holdfast/localcluster"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

// A peer whose files were damaged while it was down either comes back as if they were not, or refuses to start and says so; then it
// is wiped and joins again. What it must not do is serve something else than the others: package check compares them.

const page = 4096 // of bolt

// tornLog cuts the end off the log, as a disk does that has lied about what it has written.
func tornLog(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	return damaged(ctx, c, rng, func(dir string) error {
		name := filepath.Join(dir, "raft.db")
		st, err := os.Stat(name)
		if err != nil {
			return err
		}
		cut := int64(1+rng.IntN(3))*page - int64(rng.IntN(page))
		return os.Truncate(name, max(0, st.Size()-cut))
	})
}

// corruptLog flips bytes in the last entries of the log.
func corruptLog(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	return damaged(ctx, c, rng, func(dir string) error {
		name := filepath.Join(dir, "raft.db")
		at, err := lastEntry(name)
		if err != nil {
			return err
		}
		return harness.FlipBytes(name, at, 1+rng.IntN(16))
	})
}

// corruptSnapshot flips bytes in the newest snapshot, if there is one yet.
func corruptSnapshot(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	return damaged(ctx, c, rng, func(dir string) error {
		states, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "state.bin"))
		if err != nil || len(states) == 0 {
			return err
		}
		name := states[len(states)-1]
		st, err := os.Stat(name)
		if err != nil || st.Size() == 0 {
			return err
		}
		return harness.FlipBytes(name, rng.Int64N(st.Size()), 1+rng.IntN(16))
	})
}

func damaged(ctx context.Context, c *harness.Cluster, rng *rand.Rand, damage func(dataDir string) error) (Heal, error) {
	p := anyPeer(c, rng)
	if err := p.Kill(); err != nil {
		return nil, err
	}
	if err := damage(p.DataDir); err != nil {
		return nil, fmt.Errorf("damage the files of peer %s: %w", p.ID, err)
	}
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return serveOrRefuse(ctx, c, p) }, nil
}

// refusalTime is how long a peer may take to be ready, or to refuse.
const refusalTime = 20 * time.Second

func serveOrRefuse(ctx context.Context, c *harness.Cluster, p *localcluster.Peer) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	ctx, stop := context.WithTimeout(ctx, refusalTime)
	defer stop()
	for {
		if r, err := p.Readiness(ctx); err == nil && r.Ready {
			c.Log.Info("the peer serves with its damaged files", "peer", p.ID)
			return nil
		}
		select {
		case <-tick.C:
		case <-p.Done():
			return refused(ctx, c, p)
		case <-ctx.Done():
			return fmt.Errorf("peer %s with damaged files neither serves nor ends; its log:\n%s", p.ID, p.LogTail(3000))
		}
	}
}

// refused checks that a peer has said why it ended, and does what it has said: move its data away and let it rejoin.
func refused(ctx context.Context, c *harness.Cluster, p *localcluster.Peer) error {
	log := p.LogTail(3000)
	if p.Wait() == nil || !strings.Contains(log, "damage") && !strings.Contains(log, "cut off") {
		return errors.Join(fmt.Errorf("peer %s with damaged files has ended without saying so: %w; its log:\n%s", p.ID, p.Wait(), log))
	}
	c.Log.Info("the peer refused its damaged files, and is wiped", "peer", p.ID)
	return errors.Join(p.Wipe(), p.Start(ctx))
}

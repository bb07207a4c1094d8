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

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

// A peer whose files were damaged while it was down either works as if they were not, or
// refuses to start and logs the reason. Then it is wiped and joins again. It must never
// have another state than the others: package check compares them.

const page = 4096 // of bolt

// tornLog loses the end of the log, like a disk that acknowledged writes falsely. It
// truncates the file, or erases a page of its last entry.
func tornLog(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	return damaged(ctx, c, rng, func(dir string) (uint64, error) {
		l, err := readLog(dir)
		if err != nil {
			return 0, err
		}
		if rng.IntN(2) == 0 {
			return l.unseen, os.Truncate(l.name, max(0, l.used-1-rng.Int64N(3*page)))
		}
		for _, at := range l.last {
			err = errors.Join(err, harness.ZeroBytes(l.name, at/page*page, page))
		}
		return l.unseen, err
	})
}

// corruptLog flips bytes in the last entry of the log.
func corruptLog(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	return damaged(ctx, c, rng, func(dir string) (uint64, error) {
		l, err := readLog(dir)
		if err != nil {
			return 0, err
		}
		from, n := rng.IntN(l.size), 1+rng.IntN(16)
		for _, at := range l.last {
			err = errors.Join(err, harness.FlipBytes(l.name, at+int64(from), min(n, l.size-from)))
		}
		return l.unseen, err
	})
}

// corruptSnapshot flips bytes in the newest snapshot, if there is one.
func corruptSnapshot(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	return damaged(ctx, c, rng, func(dir string) (uint64, error) {
		states, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "state.bin"))
		if err != nil || len(states) == 0 {
			return 0, err
		}
		name := states[len(states)-1]
		st, err := os.Stat(name)
		if err != nil || st.Size() == 0 {
			return 0, err
		}
		return 0, harness.FlipBytes(name, rng.Int64N(st.Size()), 1+rng.IntN(16))
	})
}

// damaged kills a peer, damages its files and starts it. The function damage returns the
// index of the last entry if its loss leaves no trace, otherwise 0.
func damaged(
	ctx context.Context, c *harness.Cluster, rng *rand.Rand, damage func(dataDir string) (uint64, error),
) (Heal, error) {
	p := anyPeer(c, rng)
	if err := p.Kill(); err != nil {
		return nil, err
	}
	unseen, err := damage(p.DataDir)
	if err != nil {
		return nil, fmt.Errorf("damage the files of peer %s: %w", p.ID, err)
	}
	if err := outlived(ctx, c, p, unseen); err != nil {
		return nil, err
	}
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return serveOrRefuse(ctx, c, p) }, nil
}

// outlived blocks until the others have committed an entry that this peer never had. Then
// both of them have everything that it had acknowledged. Before that, its vote could elect
// a peer without such an entry, and no promise covers a disk that loses one without a
// trace.
func outlived(ctx context.Context, c *harness.Cluster, p *localcluster.Peer, index uint64) error {
	if index == 0 {
		return nil
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		others, err := c.Applied(ctx, p)
		if err == nil && others > index {
			c.Log.Info("damaged the end of a log in segments", "peer", p.ID, "entry", index)
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			behind := fmt.Errorf("wait until the others have more than the %d entries of peer %s: they have %d: %w",
				index, p.ID, others, ctx.Err())
			return errors.Join(behind, err)
		}
	}
}

// refusalTime bounds the wait until a peer is ready, or refuses to start.
const refusalTime = 20 * time.Second

func serveOrRefuse(ctx context.Context, c *harness.Cluster, p *localcluster.Peer) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	ctx, stop := context.WithTimeout(ctx, refusalTime)
	defer stop()
	others, err := c.Applied(ctx, p)
	if err != nil {
		return err
	}
	for {
		// It has read all of its files only when it has caught up with the others.
		if r, err := p.Readiness(ctx); err == nil && r.Ready && r.AppliedIndex >= others {
			c.Log.Info("the peer runs with its damaged files", "peer", p.ID)
			return nil
		}
		select {
		case <-tick.C:
		case <-p.Done():
			return refused(ctx, c, p)
		case <-ctx.Done():
			return fmt.Errorf("peer %s with damaged files is neither ready nor ended; its log:\n%s", p.ID,
				p.LogTail(3000))
		}
	}
}

// refused checks that a peer has logged why it ended, and follows its advice: move its data
// away and let it rejoin.
func refused(ctx context.Context, c *harness.Cluster, p *localcluster.Peer) error {
	log := p.LogTail(3000)
	if p.Wait() == nil || !strings.Contains(log, cluster.DamageAdvice) {
		return errors.Join(fmt.Errorf("peer %s with damaged files has ended without the reason: %w; its log:\n%s",
			p.ID, p.Wait(), log))
	}
	c.Log.Info("the peer refused its damaged files, wiping it", "peer", p.ID)
	return errors.Join(p.Wipe(), p.Start(ctx))
}

// lostLog removes or empties a peer's raft.db. The peer must refuse to start, because with
// a new log it could vote twice in a term. It rejoins with an empty directory.
func lostLog(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	p := anyPeer(c, rng)
	if err := p.Kill(); err != nil {
		return nil, err
	}
	name := filepath.Join(p.DataDir, "raft.db")
	err := os.Remove(name)
	if err == nil && rng.IntN(2) == 0 {
		err = os.WriteFile(name, nil, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("remove the log of peer %s: %w", p.ID, err)
	}
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	within, stop := context.WithTimeout(ctx, refusalTime)
	defer stop()
	select {
	case <-p.Done():
	case <-within.Done():
		return nil, fmt.Errorf("peer %s runs without its log; its log file:\n%s", p.ID, p.LogTail(3000))
	}
	if log := p.LogTail(3000); p.Wait() == nil || !strings.Contains(log, cluster.DamageAdvice) {
		return nil, fmt.Errorf("peer %s without its log ended without a reason: %w; its log file:\n%s", p.ID,
			p.Wait(), log)
	}
	return func(ctx context.Context) error { return errors.Join(p.Wipe(), p.Start(ctx)) }, nil
}

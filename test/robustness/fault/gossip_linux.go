package fault

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

// gossipRotation replaces the gossip key: first the new one is accepted, then it encrypts,
// then the old one is removed.
type gossipRotation struct {
	c        *harness.Cluster
	old, new string
}

func newGossipKey(c *harness.Cluster) (*gossipRotation, error) {
	old, err := c.GossipKey(c.Peers()[0])
	return &gossipRotation{c: c, old: old, new: newKey()}, err
}

func (r *gossipRotation) write(step int, p *localcluster.Peer) error {
	switch step {
	case 0:
		return r.c.GossipKeys(p, r.old, r.new)
	case 1:
		return r.c.GossipKeys(p, r.new, r.old)
	}
	return r.c.GossipKeys(p, r.new)
}

func (r *gossipRotation) taken(ctx context.Context, step int, p *localcluster.Peer) error {
	return until(ctx, func() error {
		switch step {
		case 0: // asked under the new key, it answers under its first one
			return r.c.Gossips(p, r.new, r.old)
		case 1: // only a client with the new key understands the answer
			return r.c.Gossips(p, r.new)
		}
		if err := r.c.Gossips(p, r.new); err != nil {
			return err
		}
		err := r.c.Gossips(p, r.old, r.new)
		switch {
		case err == nil:
			return errors.New("it " + AcceptsOldGossipKey)
		case errors.Is(err, harness.ErrNoGossip):
			return nil
		}
		return err
	})
}

func (r *gossipRotation) done(step int) error {
	if step == steps-1 {
		r.old, r.new = r.new, newKey() // for a possible repetition
	}
	return nil
}

// deadTime is how long a peer may consider another one dead while nothing is broken: a busy
// machine answers late.
const deadTime = 3 * time.Second

// watchGossip polls each peer's view of the others until the returned function is called.
// That returns an error if a peer was considered dead.
func watchGossip(ctx context.Context, c *harness.Cluster) func() error {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	peers := c.Peers()
	errs := make([]error, len(peers))
	for i, p := range peers {
		wg.Go(func() {
			dead := map[string]time.Time{}
			for wait.Sleep(ctx, 200*time.Millisecond) == nil {
				all, err := c.AliveTo(ctx, p)
				if err != nil {
					continue // it is busy: the workload checks whether it answers
				}
				for id, alive := range all {
					since, was := dead[id]
					switch {
					case alive:
						delete(dead, id)
					case !was:
						dead[id] = time.Now()
					case time.Since(since) > deadTime:
						errs[i] = fmt.Errorf("peer %s has considered %s dead for %s, while only keys are replaced",
							p.ID, id, time.Since(since).Round(time.Second))
						return
					}
				}
			}
		})
	}
	return func() error {
		stop()
		wg.Wait()
		return errors.Join(errs...)
	}
}

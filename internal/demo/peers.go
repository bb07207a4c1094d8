package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
)

// readyTimeout bounds the time until the peers are ready.
const readyTimeout = 45 * time.Second

// peers are the processes of a cluster, and a client of theirs.
type peers struct {
	*localcluster.Cluster
	binary string
	client *client.Client
	victim atomic.Pointer[localcluster.Peer] // the peer that the demo has killed, if any
}

// startPeers starts three peers and blocks until they serve.
func startPeers(ctx context.Context, dir, hardware string) (*peers, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the executable of this process: %w", err)
	}
	ctx, stop := context.WithTimeout(ctx, readyTimeout)
	defer stop()
	c, err := localcluster.Start(ctx, localcluster.Config{Binary: binary, Dir: dir, Peers: 3, FakeEndpoint: hardware})
	if err != nil {
		return nil, err
	}
	all, err := client.Dial(client.Config{Addrs: c.Addrs(), TLS: c.TLS()})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the peers: %w", err), c.Close()) //nolint:contextcheck // has its own
	}
	return &peers{Cluster: c, binary: binary, client: all}, nil
}

// revive starts the killed peer again, with its data, and blocks until all peers serve.
func (p *peers) revive(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, readyTimeout)
	defer stop()
	if err := p.victim.Load().Start(ctx); err != nil {
		return err
	}
	p.victim.Store(nil)
	return p.WaitReady(ctx)
}

// watch blocks until ctx ends. It returns an error if a peer ends that the demo has not killed.
func (p *peers) watch(ctx context.Context) error {
	for {
		for _, one := range p.Peers() {
			if !one.Running() && one != p.victim.Load() && ctx.Err() == nil {
				err := cmp.Or(one.Wait(), fmt.Errorf("peer %s: exit status 0", one.ID))
				return fmt.Errorf("run the peers: %w; the end of its log:\n%s", err, one.LogTail(1000))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// stop kills all peers. Their data survives that.
func (p *peers) stop() error {
	return errors.Join(p.client.Close(), p.Peer("n1").Kill(), p.Peer("n2").Kill(), p.Peer("n3").Kill(), p.Close())
}

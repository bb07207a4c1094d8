// Package clustertest runs the peers of a cluster inside a test: real peers with real
// sockets on loopback, and a gRPC server each. It owns no behavior, and production code
// must not import it.
package clustertest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/freeport"
	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
	"github.com/holdfast-metal/holdfast/fsm"
)

// Options configure a cluster. The zero value means three peers in memory.
type Options struct {
	// Peers is the number of peers; default 3.
	Peers int
	// OnDisk creates a data directory for each peer, so that it keeps its data across
	// restarts.
	OnDisk bool
	// TLS creates certificates and gossip keys for the peers. Without it they are insecure.
	TLS bool
	// Configure changes a peer's configuration before it starts.
	Configure func(i int, c *cluster.Config)
	// Register adds services to a peer's gRPC server, which already has PeerService and
	// Machines.
	Register func(i int, p *Peer)
	// Work is the peer's work.
	Work func(i int) cluster.Work
	// Stopped reports whether a peer is not started yet.
	Stopped func(i int) bool
}

// Cluster is a set of peers.
type Cluster struct {
	t     testing.TB
	opts  Options
	dir   string
	Peers []*Peer   // by number, from 0
	CA    *issue.CA // of the peers' certificates, with TLS
}

// Peer is one peer. Its fields change when it restarts.
type Peer struct {
	ID   string
	Node *cluster.Peer
	FSM  *fsm.FSM
	GRPC *grpc.Server
	Conn *grpc.ClientConn // to its own gRPC server, without retries

	i        int
	grpcAddr string
	raft     string
	gossip   string
	cancel   context.CancelFunc
	done     chan struct{}
	err      error
	mu       sync.Mutex
	up       bool
}

// Start starts a cluster. The test's cleanup stops it.
func Start(t testing.TB, opts Options) *Cluster {
	t.Helper()
	if opts.Peers == 0 {
		opts.Peers = 3
	}
	c := &Cluster{t: t, opts: opts, dir: t.TempDir()}
	ports, err := freeport.Claim(t.Context(), 3*opts.Peers) // peers keep their ports when they restart
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ports.Release() })
	addr := func() string { return ports.Address("127.0.0.1") }
	var first string
	for i := range opts.Peers {
		p := &Peer{ID: fmt.Sprintf("p%d", i+1), i: i, grpcAddr: addr(), raft: addr(), gossip: addr()}
		if i == 0 {
			first = p.gossip
		}
		c.Peers = append(c.Peers, p)
	}
	if opts.TLS {
		c.secure()
	}
	t.Cleanup(c.stopAll)
	for i, p := range c.Peers {
		if opts.Stopped == nil || !opts.Stopped(i) {
			c.start(p, first)
		}
	}
	return c
}

func (c *Cluster) start(p *Peer, join string) {
	c.t.Helper()
	if err := c.TryStart(p, join); err != nil {
		c.t.Fatalf("start %s: %v", p.ID, err)
	}
}

// TryStart starts a peer that is not running.
func (c *Cluster) TryStart(p *Peer, join ...string) error {
	cfg := cluster.Config{
		PeerID: p.ID, RaftAddr: p.raft, GossipAddr: p.gossip, AdvertiseGRPC: p.grpcAddr,
		BootstrapExpect: c.opts.Peers, RaftMultiplier: 1, Version: "test", Logger: Logger(),
	}
	for _, addr := range join {
		if addr != p.gossip {
			cfg.Join = append(cfg.Join, addr)
		}
	}
	if c.opts.OnDisk {
		cfg.DataDir = c.DataDir(p)
	}
	options, creds, err := c.protect(p, &cfg)
	if err != nil {
		return err
	}
	if c.opts.Configure != nil {
		c.opts.Configure(p.i, &cfg)
	}
	f := fsm.New()
	n, err := cluster.New(cfg, f)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", p.grpcAddr)
	if err != nil {
		n.Close()
		return err
	}
	cc, err := grpc.NewClient(p.grpcAddr, grpc.WithTransportCredentials(creds), grpc.WithDisableRetry())
	if err != nil {
		n.Close()
		return err
	}
	s := grpc.NewServer(append(options,
		grpc.UnaryInterceptor(n.InterceptUnary),
		grpc.StreamInterceptor(n.InterceptStream),
	)...)
	n.RegisterPeerService(s)
	p.mu.Lock()
	p.Node, p.FSM, p.GRPC, p.Conn, p.up = n, f, s, cc, true
	p.done = make(chan struct{})
	p.mu.Unlock()
	registerMachines(s, n)
	if c.opts.Register != nil {
		c.opts.Register(p.i, p)
	}
	go func() { _ = s.Serve(peertls.Listen(l)) }() // ends with s.Stop
	var work cluster.Work
	if c.opts.Work != nil {
		work = c.opts.Work(p.i)
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	done := p.done
	go func() { // ends with the peer
		defer close(done)
		p.err = n.Run(ctx, work)
	}()
	return nil
}

// Leading returns the work of peers that have the same tasks while they lead.
func Leading(tasks ...leader.Task) func(int) cluster.Work {
	return func(int) cluster.Work { return cluster.Work{Tasks: tasks} }
}

// Number returns the number of the peer, from 0.
func (p *Peer) Number() int { return p.i }

// Gossip returns the gossip address of a peer, which other peers join.
func (c *Cluster) Gossip(p *Peer) string { return p.gossip }

// DataDir returns the data directory of a peer.
func (c *Cluster) DataDir(p *Peer) string { return filepath.Join(c.dir, p.ID) }

// Logger returns a logger that writes to stderr at the level in CLUSTERTEST_LOG, or
// discards everything if that is unset.
func Logger() *slog.Logger {
	level := os.Getenv("CLUSTERTEST_LOG")
	if level == "" {
		return slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	var l slog.Level
	_ = l.UnmarshalText([]byte(level))
	replace := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime { // Raft logs a duration under the same name
			return slog.String("t", a.Value.Time().Format("05.000"))
		}
		return a
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l, ReplaceAttr: replace}))
}

// Stop stops a peer gracefully, and returns the result of Run.
func (c *Cluster) Stop(p *Peer) error { return c.end(p, func() { p.cancel() }) }

// Kill stops a peer like a crash.
func (c *Cluster) Kill(p *Peer) {
	_ = c.end(p, func() {
		p.Node.Close()
		p.GRPC.Stop()
	})
}

func (c *Cluster) end(p *Peer, how func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.up {
		return nil
	}
	p.up = false
	how()
	<-p.done
	p.GRPC.Stop()
	p.cancel()
	_ = p.Conn.Close()
	return p.err
}

// Wait blocks until a peer's Run has returned by itself, and returns its result.
func (c *Cluster) Wait(p *Peer, within time.Duration) error {
	c.t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		c.t.Fatalf("wait for %s to end: it still runs after %v", p.ID, within)
	}
	return c.end(p, func() {})
}

// Restart starts a stopped peer again, with its data if that is on disk.
func (c *Cluster) Restart(p *Peer) {
	c.t.Helper()
	c.start(p, c.anyGossip(p))
}

// Wipe removes the data of a stopped peer.
func (c *Cluster) Wipe(p *Peer) {
	c.t.Helper()
	if err := os.RemoveAll(c.DataDir(p)); err != nil {
		c.t.Fatalf("wipe %s: %v", p.ID, err)
	}
}

func (c *Cluster) anyGossip(but *Peer) string {
	for _, p := range c.Peers {
		if p != but && p.Up() {
			return p.gossip
		}
	}
	return c.Peers[0].gossip
}

// Up reports whether the peer runs.
func (p *Peer) Up() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.up
}

func (c *Cluster) stopAll() {
	var wg sync.WaitGroup
	for _, p := range c.Peers {
		wg.Go(func() { c.Kill(p) })
	}
	wg.Wait()
}

// Leader blocks until a majority follows a leader, and returns that peer.
func (c *Cluster) Leader() *Peer {
	c.t.Helper()
	var leader *Peer
	Eventually(c.t, time.Minute, "a leader", func() error {
		votes := map[string]int{}
		for _, p := range c.Peers {
			if p.Up() {
				if id, _, ok := p.Node.Leader(); ok {
					votes[id]++
				}
			}
		}
		for _, p := range c.Peers {
			if p.Up() && p.Node.Ready() && votes[p.ID] > c.opts.Peers/2 {
				leader = p
				return nil
			}
		}
		return fmt.Errorf("followers by leader: %v", votes)
	})
	return leader
}

// Followers returns the running peers except the leader.
func (c *Cluster) Followers(leader *Peer) []*Peer {
	var ps []*Peer
	for _, p := range c.Peers {
		if p != leader && p.Up() {
			ps = append(ps, p)
		}
	}
	return ps
}

// Eventually polls until check returns nil.
func Eventually(t testing.TB, within time.Duration, name string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("wait for %s: not within %v: %v", name, within, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

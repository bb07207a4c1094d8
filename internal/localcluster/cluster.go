package localcluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
	"github.com/holdfast-metal/holdfast/internal/cli/pki"
)

// Cluster is a group of peers started together.
type Cluster struct {
	mu    sync.Mutex
	peers []*Peer // by id; Add and Remove change it
	all   []*Peer // with the spare ones

	ports   *freeport.Block
	http    *http.Client
	files   *pki.Files            // nil if the cluster is insecure
	admin   *tls.Config           // the same
	asPeer  map[*Peer]*tls.Config // the same
	closing sync.Once
	failed  error // the result of Close
}

// Start starts a cluster and blocks until it serves. If it fails, no process is left, but the logs
// are.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	c, err := New(ctx, cfg)
	if err != nil {
		return nil, err
	}
	for _, p := range c.Peers() {
		if err := p.Start(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	if err := c.waitReady(ctx, c.Peers()); err != nil {
		return nil, errors.Join(fmt.Errorf("start local cluster: %w", err), c.Close())
	}
	return c, nil
}

// New returns the peers of a cluster and starts none. Close releases their ports.
func New(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ports, err := freeport.Claim(ctx, 4*(cfg.Peers+cfg.Spare))
	if err != nil {
		return nil, err
	}
	// With TLS, secure replaces the transport by one that keeps connections, because handshakes are
	// expensive. It notices if the peer of a connection was killed, and sends the request again.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	c := &Cluster{ports: ports, http: client}
	for i := range cfg.Peers + cfg.Spare {
		id := "n" + strconv.Itoa(i+1)
		host := cfg.Hosts[i]
		c.all = append(c.all, &Peer{
			ID:         id,
			GRPCAddr:   ports.Address(host),
			HTTPAddr:   ports.Address(host),
			RaftAddr:   ports.Address(host),
			GossipAddr: ports.Address(host),
			DataDir:    filepath.Join(cfg.Dir, id, "data"),
			LogFile:    filepath.Join(cfg.Dir, id+".log"),
			binary:     cfg.Binary,
			http:       client,
			secure:     !cfg.Insecure,
		})
	}
	c.peers = slices.Clone(c.all[:cfg.Peers])
	if !cfg.Insecure {
		if err := c.secure(cfg); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	start := new(sync.Mutex)
	for i, p := range c.all {
		p.spawn, p.env = start, environment(cfg.Env)
		var enter func() error
		if cfg.Enter != nil {
			enter = func() error { return cfg.Enter(i) }
		}
		if p.spawner, err = newSpawner(enter); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare the thread of peer %s: %w", p.ID, err), c.Close())
		}
		if p.args, err = c.arguments(cfg, p); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// environment returns the environment of this process with more variables, and without HOLDFAST_*,
// which would configure the peers.
func environment(more []string) []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "HOLDFAST_") })
	return append(env, more...)
}

// arguments returns a peer's command line, and writes the configuration file for settings
// without a flag.
func (c *Cluster) arguments(cfg Config, p *Peer) ([]string, error) {
	dir := filepath.Dir(p.DataDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of peer %s: %w", p.ID, err)
	}
	args := []string{"server"}
	if cfg.FakeEndpoint != "" {
		file := filepath.Join(dir, "config.yaml")
		endpoint, err := json.Marshal(cfg.FakeEndpoint) // JSON is YAML
		if err == nil {
			err = os.WriteFile(file, fmt.Appendf(nil, "providers:\n  fake:\n    kind: fake\n    endpoint: %s\n%s",
				endpoint, cfg.Providers), 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("write the configuration of peer %s: %w", p.ID, err)
		}
		args = append(args, "--config", file)
	}
	if c.files == nil {
		args = append(args, "--insecure")
	} else {
		// Tests send more calls than a caller may send by default, and boot as machines of this
		// host.
		args = append(append(args, c.files.ServerArgs(p.ID)...), "--rate-limit-per-second", "0",
			"--netboot-routed", "127.0.0.0/8")
		if cfg.Renewals {
			args = append(args, c.files.RenewalArgs()...)
		}
	}
	args = append(args, "--node-id", p.ID, "--data-dir", p.DataDir,
		"--grpc-addr", p.GRPCAddr, "--http-addr", p.HTTPAddr, "--raft-addr", p.RaftAddr, "--gossip-addr", p.GossipAddr)
	var others []string
	for _, o := range c.peers {
		if o != p {
			others = append(others, o.GossipAddr)
		}
	}
	if slices.Contains(c.peers, p) {
		args = append(args, "--bootstrap-expect", strconv.Itoa(cfg.Peers))
	} else { // a spare peer joins the cluster, and leaves it when it is stopped
		args = append(args, "--bootstrap-expect", "0", "--leave-on-stop")
	}
	if len(others) > 0 {
		args = append(args, "--join", strings.Join(others, ","))
	}
	if cfg.RaftMultiplier != 0 {
		args = append(args, "--raft-multiplier", strconv.FormatFloat(cfg.RaftMultiplier, 'g', -1, 64))
	}
	args = append(args, cfg.Args...)
	if cfg.ArgsOf != nil {
		args = append(args, cfg.ArgsOf(slices.Index(c.all, p))...)
	}
	return args, nil
}

// Peers returns all peers, by id.
func (c *Cluster) Peers() []*Peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.peers)
}

// Peer returns the peer of that id, or nil.
func (c *Cluster) Peer(id string) *Peer {
	peers := c.Peers()
	i := slices.IndexFunc(peers, func(p *Peer) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return peers[i]
}

// Addrs returns the gRPC addresses of all peers.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, p := range c.Peers() {
		addrs = append(addrs, p.GRPCAddr)
	}
	return addrs
}

// Leader blocks until a peer that is not paused reports that it leads, and returns it.
func (c *Cluster) Leader(ctx context.Context) (*Peer, error) {
	var leader *Peer
	err := c.poll(ctx, func(states map[*Peer]Readiness) error {
		for p, r := range states {
			if r.Ready && r.Role == "leader" {
				leader = p
				return nil
			}
		}
		return errors.New("no peer leads")
	})
	if err != nil {
		return nil, fmt.Errorf("find the leader: %w", err)
	}
	return leader, nil
}

// WaitReady blocks until all peers that run, and are not paused, are ready and name the same
// leader. It returns an error at once if one of them ends.
func (c *Cluster) WaitReady(ctx context.Context) error { return c.waitReady(ctx, c.awake()) }

// waitReady is WaitReady for peers that were started, also those that have ended since.
func (c *Cluster) waitReady(ctx context.Context, started []*Peer) error {
	return c.poll(ctx, func(states map[*Peer]Readiness) error {
		for _, p := range started {
			if !p.Running() {
				return final{fmt.Errorf("%w; the end of its log:\n%s", ended(p), p.LogTail(2000))}
			}
		}
		leader := ""
		for _, p := range c.awake() {
			switch r, ok := states[p]; {
			case !ok:
				return fmt.Errorf("peer %s does not answer", p.ID)
			case !r.Ready && r.Error != "":
				return fmt.Errorf("peer %s, a %s, is not ready at index %d: %s", p.ID, r.Role, r.AppliedIndex, r.Error)
			case !r.Ready || r.Leader == "":
				return fmt.Errorf("peer %s is a %s and knows no leader", p.ID, r.Role)
			case leader == "":
				leader = r.Leader
			case leader != r.Leader:
				return fmt.Errorf("peers disagree on the leader: %s or %s", leader, r.Leader)
			}
		}
		if leader == "" {
			return final{errors.New("no peer is running")}
		}
		return nil
	})
}

func ended(p *Peer) error {
	if err := p.Wait(); err != nil {
		return fmt.Errorf("it has ended: %w", err)
	}
	return fmt.Errorf("peer %s: it has ended with exit status 0", p.ID)
}

func (c *Cluster) awake() []*Peer {
	return slices.DeleteFunc(c.Peers(), func(p *Peer) bool { return !p.awake() })
}

// final is an error that ends a poll.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// poll polls all awake peers, in parallel, until cond returns nil or a final error for their
// states.
func (c *Cluster) poll(ctx context.Context, cond func(map[*Peer]Readiness) error) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var last error
	for {
		err := cond(c.states(ctx))
		if err == nil || errors.As(err, new(final)) {
			return err
		}
		if ctx.Err() == nil || last == nil {
			last = err // but not after a poll that the end of ctx has cut short
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", last, ctx.Err())
		case <-tick.C:
		}
	}
}

// states returns the states of the awake peers that answer.
func (c *Cluster) states(ctx context.Context) map[*Peer]Readiness {
	var mu sync.Mutex
	var wg sync.WaitGroup
	states := map[*Peer]Readiness{}
	for _, p := range c.awake() {
		wg.Go(func() {
			if r, err := p.Readiness(ctx); err == nil {
				mu.Lock()
				defer mu.Unlock()
				states[p] = r
			}
		})
	}
	wg.Wait()
	return states
}

// Close stops all peers, and kills those that have not ended after a while. Data and logs are
// kept.
func (c *Cluster) Close() error {
	c.closing.Do(func() {
		ctx, stop := context.WithTimeout(context.Background(), stopTimeout)
		defer stop()
		var wg sync.WaitGroup
		errs := make([]error, len(c.all))
		for i, p := range c.all {
			wg.Go(func() { errs[i] = p.end(ctx) })
		}
		wg.Wait()
		for _, p := range c.all {
			if p.spawner != nil {
				p.spawner.close()
			}
		}
		c.http.CloseIdleConnections()
		c.failed = errors.Join(append(errs, c.ports.Release())...)
	})
	return c.failed
}

// end stops the peer, paused or not, by force if needed.
func (p *Peer) end(ctx context.Context) error {
	if !p.Running() {
		return nil
	}
	if _, err := p.signal(syscall.SIGCONT); err != nil && !errors.Is(err, errNotRunning) {
		return err
	}
	err := p.Stop(ctx)
	if errors.Is(err, errNotRunning) {
		return nil
	}
	return errors.Join(err, p.Kill())
}

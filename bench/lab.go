package bench

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/bench/load"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	readyTimeout = time.Minute
	inFlight     = 256 // concurrent requests while agents are created and registered
	// registerTries is the maximum number of tries of a registration.
	registerTries = 5
)

// lab is a cluster under test.
type lab struct {
	*session
	cluster *localcluster.Cluster
	client  *client.Client
	plain   *tls.Config // of agents, without client certificates
}

// inLab runs do with three peers with default limits.
func inLab(do func(context.Context, *lab) error) func(context.Context, *session) error {
	return inLabOf(localcluster.Config{Args: []string{"--rate-limit-per-second", "1000"}}, do)
}

// inLabOf runs do with the peers of a configuration. Without a limit in it, calls are not limited.
func inLabOf(cfg localcluster.Config, do func(context.Context, *lab) error) func(context.Context, *session) error {
	return func(ctx context.Context, s *session) (err error) {
		s.say("starting %d peers, with TLS, in %s", cmp.Or(cfg.Peers, 3), s.dir)
		start, stop := context.WithTimeout(ctx, readyTimeout)
		defer stop()
		cfg := cfg // do may run more than once
		cfg.Binary, cfg.Dir, cfg.RaftMultiplier = s.binary, s.dir, s.patience
		cfg.Args = append(slices.Clone(cfg.Args), "--log-store", s.logStore)
		c, err := localcluster.Start(start, cfg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }() //nolint:contextcheck // peers are stopped after ctx has ended
		l := &lab{session: s, cluster: c, plain: c.TLS()}
		l.plain.Certificates, l.plain.GetClientCertificate = nil, nil
		l.plain.NextProtos = []string{"http/1.1"}
		if l.client, err = client.Dial(client.Config{Addrs: c.Addrs(), TLS: c.TLS()}); err != nil {
			return fmt.Errorf("connect to the peers: %w", err)
		}
		defer func() { err = errors.Join(err, l.client.Close()) }()
		if _, err := l.client.Pools().CreatePool(start,
			&holdfastv1.CreatePoolRequest{Pool: &holdfastv1.Pool{PoolId: poolName}}); err != nil {
			return fmt.Errorf("create pool %s: %w", poolName, err)
		}
		return do(ctx, l)
	}
}

// roles returns the leader and the followers. Figures are only valid for one leader: call
// stillLeads at the end.
func (l *lab) roles(ctx context.Context) (leader *localcluster.Peer, followers []*localcluster.Peer, err error) {
	ctx, stop := context.WithTimeout(ctx, readyTimeout)
	defer stop()
	if leader, err = l.cluster.Leader(ctx); err != nil {
		return nil, nil, err
	}
	for _, p := range l.cluster.Peers() {
		if p != leader {
			followers = append(followers, p)
		}
	}
	return leader, followers, nil
}

// stillLeads returns an error if the leader has changed.
func (l *lab) stillLeads(ctx context.Context, p *localcluster.Peer) error {
	now, _, err := l.roles(ctx)
	if err == nil && now != p {
		err = fmt.Errorf("measure: the leader has changed from %s to %s: run it again on a machine with "+
			"less to do", p.ID, now.ID)
	}
	return err
}

// target returns the HTTP address of a peer with the TLS configuration of agents.
func (l *lab) target(p *localcluster.Peer) load.Target {
	cfg := l.plain.Clone()
	cfg.ServerName = "127.0.0.1"
	return load.Target{Addr: p.HTTPAddr, TLS: cfg}
}

// machineAgents creates machines and one token for each.
func (l *lab) machineAgents(ctx context.Context, n int) ([]load.Agent, error) {
	agents := make([]load.Agent, n)
	err := each(ctx, n, func(ctx context.Context, i int) error {
		agents[i] = newAgent(i, "")
		made, err := l.client.Agents().CreateAgentMachine(ctx,
			&holdfastv1.CreateAgentMachineRequest{Pool: poolName, MachineId: agents[i].ID})
		if err != nil {
			return fmt.Errorf("create machine %s: %w", agents[i].ID, err)
		}
		agents[i].Token = made.GetToken()
		return nil
	})
	return agents, err
}

// poolAgents returns agents that share the token of their pool. Their registration creates the
// machines.
func (l *lab) poolAgents(ctx context.Context, n int) ([]load.Agent, error) {
	made, err := l.client.Access().CreateToken(ctx, &holdfastv1.CreateTokenRequest{Name: "bench",
		Role: holdfastv1.Role_POOL_AGENT, Pools: []string{poolName}})
	if err != nil {
		return nil, fmt.Errorf("create the token of the agents: %w", err)
	}
	agents := make([]load.Agent, n)
	for i := range agents {
		agents[i] = newAgent(i, made.GetSecret())
	}
	return agents, nil
}

// register registers agents, distributed among all peers, and returns the rate per second.
func (l *lab) register(ctx context.Context, agents []load.Agent) (float64, error) {
	var peers []*load.Wires
	for _, p := range l.cluster.Peers() {
		peers = append(peers, &load.Wires{Target: l.target(p)})
	}
	defer func() {
		for _, p := range peers {
			p.Close()
		}
	}()
	l.say("registering %s agents", report.Thousands(int64(len(agents))))
	began := time.Now()
	var done atomic.Int64
	err := each(ctx, len(agents), func(ctx context.Context, i int) error {
		p := peers[i%len(peers)]
		for try := 0; ; try++ {
			status, body, err := p.Post(ctx, agents[i].Register(nil, p.Addr))
			if err == nil && status == http.StatusOK {
				break
			}
			if try == registerTries || ctx.Err() != nil {
				return fmt.Errorf("register %s: %w", agents[i].ID, load.Wrong(status, body, err))
			}
			if err := wait.Sleep(ctx, time.Second); err != nil { // an election: agents retry, too
				return err
			}
		}
		if n := done.Add(1); n%20_000 == 0 {
			l.say("%s are registered", report.Thousands(n))
		}
		return nil
	})
	return float64(len(agents)) / time.Since(began).Seconds(), err
}

// each calls do for all numbers below n, concurrently, until one call fails.
func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(n, inFlight) {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

package specs_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/client/discovery"
	"github.com/holdfast-metal/holdfast/client/machine"
	"github.com/holdfast-metal/holdfast/client/poolreg"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// hardware supplies the facts of the agents.
type hardware struct{}

func (hardware) Specs(context.Context) (machine.Specs, error) {
	return machine.Specs{Hostname: "h", PrivateIP: "10.0.0.1", CPUMillicores: 8000, MemoryMiB: 16384}, nil
}
func (hardware) Metrics(context.Context) (machine.Metrics, error) { return machine.Metrics{}, nil }

// gpus supplies the state of the pool manager.
type gpus struct{}

func (gpus) State(context.Context) (poolreg.State, error) {
	return poolreg.State{GPUs: []poolreg.GPU{{ID: 0, Model: "RTX 4090", TotalVRAMGB: new(24), AvailableVRAMGB: new(8)}},
		WorkersTotal: 1}, nil
}

// calls records the callbacks of a service.
type calls struct {
	mu            sync.Mutex
	ids           map[string]bool
	registrations int
	ping          time.Time // the last successful one
	refused       []int     // statuses of pings other than 200
}

func (c *calls) OnRegistration(_ *discovery.Manager, t discovery.Target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.registrations++
	c.ids[t.ID] = true
}

func (c *calls) OnPing(_ *discovery.Manager, _ discovery.Target, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ping = time.Now()
	if status != 200 {
		c.refused = append(c.refused, status)
	}
}

func (c *calls) pinged(since time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ping.After(since) {
		return fmt.Errorf("no ping since %v", since)
	}
	return nil
}
func (c *calls) OnDeregistration(*discovery.Manager, discovery.Target, int) {}

const agents = 4

// TestClientsSurviveFailovers runs agents, a pool manager and a service while the leader is killed
// five times and a peer hangs. None of them may expire, change its id or register again. One that
// is really gone must be declared lost in time.
func TestClientsSurviveFailovers(t *testing.T) {
	w := start(t, 1)
	urls := make([]string, 0, 3)
	for _, p := range w.Peers() {
		urls = append(urls, p.URL(""))
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	run := func(name string, f func(context.Context) error) {
		running.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("%s ended: %v", name, err)
			}
		})
	}
	mortal, stop0 := context.WithCancel(ctx)
	defer stop0()
	var lastOf0 func() time.Time
	for i := range agents {
		a, err := machine.New(machine.Config{Servers: urls, Token: w.tokens["gpu"], MachineID: fmt.Sprintf("agent-%d", i),
			Pool: "gpu", Interval: time.Second, TLS: w.agentTLS()}, hardware{})
		if err != nil {
			t.Fatal(err)
		}
		run("agent", func(ctx context.Context) error {
			if i == 0 {
				ctx = mortal
			}
			return a.Run(ctx)
		})
		if i == 0 {
			lastOf0 = func() time.Time { return a.Status().LastKeepalive }
		}
		w.signs = append(w.signs, func(since time.Time) error {
			if s := a.Status(); !s.LastKeepalive.After(since) {
				return fmt.Errorf("no keepalive of agent-%d since %v: %w", i, since, s.Err)
			}
			return nil
		})
	}
	wire := newLine(w)
	p, err := poolreg.New(poolreg.Config{Pool: poolreg.Pool{ID: "pool-1", Endpoint: "http://10.0.0.1:9200", NodeID: "n",
		Region: "EU", Version: "1"},
		Orchestrator: &poolreg.Server{URLs: urls,
			Token: w.tokens["pool"]}, HeartbeatInterval: time.Second, Transport: wire}, gpus{})
	if err != nil {
		t.Fatal(err)
	}
	run("pool manager", p.Run)
	seen := &calls{ids: map[string]bool{}}
	s, err := discovery.New(discovery.Config{BaseURLs: urls, ClientID: w.tokens["service-id"],
		Secret: w.tokens["service"], TokenEndpoints: issuers(urls),
		DataDir: filepath.Join(t.TempDir(),
			"id"), Period: time.Second, TLS: w.agentTLS(), Callbacks: []discovery.Callback{seen}},
		discovery.Target{ServiceName: "tool", Host: "10.0.0.1", Port: 9090, ServiceType: "tool-invoker"})
	if err != nil {
		t.Fatal(err)
	}
	run("service", s.Run)
	w.signs = append(w.signs, func(time.Time) error {
		if s := p.Orchestrator(); !s.Connected {
			return fmt.Errorf("pool manager is not connected: %w", s.Err)
		}
		return nil
	}, seen.pinged)
	w.waitAll(t)

	for range 5 {
		leader := w.leader(t)
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		w.waitAll(t) // while one peer is down
		if err := leader.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.waitReady(t)
	}
	hung := w.leader(t)
	if err := hung.Pause(); err != nil {
		t.Fatal(err)
	}
	w.waitLeaderOtherThan(t, hung)
	w.waitAll(t)
	if err := hung.Resume(); err != nil {
		t.Fatal(err)
	}
	w.waitReady(t)
	w.waitAll(t)

	for i := range agents {
		w.wantHistory(t, fmt.Sprintf("agent-%d", i), "REGISTERED", "READY")
	}
	seen.mu.Lock()
	if len(seen.ids) != 1 || seen.registrations != 1 || len(seen.refused) > 0 {
		t.Errorf("service: got ids %v, %d registrations and refused pings %v, want one registration and no refusal",
			seen.ids, seen.registrations, seen.refused)
	}
	seen.mu.Unlock()

	w.losePool(t, wire)
	w.loseAgent(t, "agent-0", stop0, lastOf0)
}

func issuers(urls []string) []string {
	all := make([]string, 0, len(urls))
	for _, u := range urls {
		all = append(all, u+"/oidc")
	}
	return all
}

// until polls a condition, which may fail during an election.
func until(t *testing.T, what string, ok func(ctx context.Context) error) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	var err error
	for time.Now().Before(deadline) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err = ok(ctx)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-t.Context().Done():
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

func (w *world) leader(t *testing.T) *localcluster.Peer {
	t.Helper()
	var leader *localcluster.Peer
	until(t, "find the leader", func(ctx context.Context) (err error) {
		leader, err = w.Leader(ctx)
		return err
	})
	return leader
}

func (w *world) waitLeaderOtherThan(t *testing.T, p *localcluster.Peer) {
	t.Helper()
	until(t, "find another leader", func(ctx context.Context) error {
		for _, other := range w.Peers() {
			if other == p {
				continue
			}
			r, err := other.Readiness(ctx)
			if err == nil && r.Leader != "" && r.Leader != p.ID {
				return nil
			}
		}
		return fmt.Errorf("%s still leads", p.ID)
	})
}

func (w *world) waitReady(t *testing.T) {
	t.Helper()
	until(t, "wait for all peers", w.WaitReady)
}

// waitAll waits until every client has sent a new heartbeat and is healthy in the state of a
// running peer.
func (w *world) waitAll(t *testing.T) {
	t.Helper()
	since := time.Now()
	for _, sign := range w.signs {
		until(t, "new heartbeats of all clients", func(context.Context) error { return sign(since) })
	}
	until(t, "healthy clients", func(ctx context.Context) error {
		var errs error
		for _, p := range w.Peers() {
			if errs = w.wellAt(ctx, p); errs == nil {
				return nil
			}
		}
		return errs
	})
}

func (w *world) wellAt(ctx context.Context, p *localcluster.Peer) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second) // the peer may hang
	defer cancel()
	conn := w.conns[p.ID]
	for i := range agents {
		m, err := holdfastv1.NewMachineServiceClient(conn).GetMachine(ctx,
			&holdfastv1.GetMachineRequest{MachineId: fmt.Sprintf("agent-%d", i)})
		if err != nil {
			return err
		}
		if got := m.GetStatus().GetAgentState(); got != holdfastv1.Agent_READY {
			return fmt.Errorf("agent-%d is %v", i, got)
		}
	}
	pool, err := holdfastv1.NewPoolServiceClient(conn).GetPool(ctx, &holdfastv1.GetPoolRequest{PoolId: "pool-1"})
	if err != nil {
		return err
	}
	if pool.GetStatus() != holdfastv1.Pool_HEALTHY {
		return fmt.Errorf("pool is %v: %s", pool.GetStatus(), pool.GetStatusReason())
	}
	list, err := holdfastv1.NewRegistryServiceClient(conn).ListServices(ctx, &holdfastv1.ListServicesRequest{})
	if err != nil {
		return err
	}
	if len(list.GetServices()) != 1 || !list.GetServices()[0].GetActive() {
		return fmt.Errorf("services are %v", list.GetServices())
	}
	return nil
}

// wantHistory checks the states of the agent facet.
func (w *world) wantHistory(t *testing.T, id string, want ...string) {
	t.Helper()
	until(t, "read the history", func(ctx context.Context) error {
		resp, err := holdfastv1.NewMachineServiceClient(w.conn).ListMachineHistory(ctx,
			&holdfastv1.ListMachineHistoryRequest{MachineId: id})
		if err != nil {
			return err
		}
		var got []string
		for _, e := range resp.GetEntries() {
			if e.GetFacet() == "agent" {
				got = append([]string{e.GetTo()}, got...)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("states of the agent facet of %s: got %v, want %v", id, got, want)
		}
		return nil
	})
}

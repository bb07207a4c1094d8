package crash

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/client/machine"
	"github.com/holdfast-metal/holdfast/internal/filter"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// The limits for an answer when one peer hangs. The client waits two seconds before it tries
// another peer, and the rest is for a busy machine. Without a second peer, a call would take more
// than eight seconds. A stream moves after five seconds, instead of fifteen.
const (
	hungAnswer = 7500 * time.Millisecond
	hungStream = 14 * time.Second
)

// TestHungPeerDelaysClientsLittle stops a peer whose connections stay open, a leader or a follower.
// It must delay new connections, existing ones and agents by a few seconds at most.
func TestHungPeerDelaysClientsLittle(t *testing.T) {
	long(t)
	t.Parallel()
	c := bench.Cluster(t, harness.Options{})
	c.Plan("nothing", step("nothing", &holdfastv1.SshCommand{Command: "true"}))
	token := agentsPool(t, c)
	for _, role := range []string{"follower", "leader"} {
		hung := c.TheLeader()
		if role == "follower" {
			hung = c.Followers()[0]
		}
		others := others(c, hung)
		old := c.Dial(hung.GRPCAddr, others[0].GRPCAddr, others[1].GRPCAddr)
		for _, call := range []string{"read", "start", "write", "agent"} {
			c.Register(fmt.Sprintf("m-%s-%s", role, call))
		}
		seen := watchOf(t, c, old, "m-"+role+"-agent")
		agents := startAgents(t, c, token, "agent-"+role)
		if err := hung.Pause(); err != nil {
			t.Fatal(err)
		}
		paused := time.Now()
		var all sync.WaitGroup
		within := func(name string, limit time.Duration, f func(ctx context.Context) error) {
			all.Go(func() {
				ctx, stop := context.WithTimeout(t.Context(), harness.Patience)
				defer stop()
				began := time.Now()
				err := f(ctx)
				took := time.Since(began).Round(time.Millisecond)
				t.Logf("%s hangs: %s: answered after %v", role, name, took)
				if err != nil || took > limit {
					t.Errorf("%s hangs: %s: got an answer after %v with %v, want it within %v", role, name, took, err, limit)
				}
			})
		}
		fresh := func() *client.Client { return c.Dial(hung.GRPCAddr, others[0].GRPCAddr, others[1].GRPCAddr) }
		for name, cl := range map[string]*client.Client{"a connected client": old, "a new client": fresh()} {
			within("read of "+name, hungAnswer, func(ctx context.Context) error {
				_, err := cl.Machines().GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: "m-" + role + "-read"})
				return err
			})
			within("StartRun of "+name, hungAnswer, func(ctx context.Context) error {
				_, err := cl.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: "r-" + role, MachineId: "m-" + role +
					"-start", PlanId: "nothing"})
				return err
			})
		}
		write := fresh()
		within("write that is sent to one peer", hungStream, func(ctx context.Context) error {
			_, err := write.Machines().UpdateMachine(ctx,
				&holdfastv1.UpdateMachineRequest{Machine: &holdfastv1.Machine{MachineId: "m-" + role + "-write",
					Labels: map[string]string{"a": "b"}}})
			return err
		})
		// Each sends one per second.
		within("keepalive of each of twelve agents", hungAnswer+time.Second, func(ctx context.Context) error {
			return poll(ctx, func() bool {
				return !slices.ContainsFunc(agents,
					func(a *machine.Agent) bool { return !a.Status().LastKeepalive.After(paused.Add(time.Second)) })
			})
		})
		within("a watch", hungStream, func(ctx context.Context) error {
			run, err := c.Through(others...).Client.Runs().StartRun(ctx,
				&holdfastv1.StartRunRequest{RequestId: "w-" + role, MachineId: "m-" + role + "-agent", PlanId: "nothing"})
			if err != nil {
				return err
			}
			return poll(ctx, func() bool { return seen.saw(run.GetRunId()) })
		})
		all.Wait()
		for _, a := range agents {
			if s := a.Status(); s.Failures > 0 {
				t.Errorf("%s hangs: keepalive of an agent: %v", role, s.Err)
			}
		}
		if err := hung.Resume(); err != nil {
			t.Fatal(err)
		}
		c.Ready()
	}
}

func others(c *harness.Cluster, not *localcluster.Peer) (all []*localcluster.Peer) {
	for _, p := range c.Peers() {
		if p != not {
			all = append(all, p)
		}
	}
	return all
}

func poll(ctx context.Context, ok func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// agentsPool creates a pool for agents, and returns its token.
func agentsPool(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	if _, err := c.Client.Pools().CreatePool(t.Context(),
		&holdfastv1.CreatePoolRequest{Pool: &holdfastv1.Pool{PoolId: "gpu"}}); err != nil {
		t.Fatal(err)
	}
	token, err := c.Client.Access().CreateToken(t.Context(), &holdfastv1.CreateTokenRequest{Name: "gpu",
		Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"gpu"}})
	if err != nil {
		t.Fatal(err)
	}
	return token.GetSecret()
}

// hardware supplies the facts of the agents.
type hardware struct{}

func (hardware) Specs(context.Context) (machine.Specs, error) {
	return machine.Specs{Hostname: "h", PrivateIP: "10.0.0.1", CPUMillicores: 8000, MemoryMiB: 16384}, nil
}
func (hardware) Metrics(context.Context) (machine.Metrics, error) { return machine.Metrics{}, nil }

// startAgents starts agents that send a keepalive per second until the test ends. Each begins at
// any peer, and there are enough for every peer to get one.
func startAgents(t *testing.T, c *harness.Cluster, token, name string) []*machine.Agent {
	t.Helper()
	var urls []string
	for _, p := range c.Peers() {
		urls = append(urls, p.URL(""))
	}
	conf := c.TLS().Clone()
	conf.Certificates, conf.GetClientCertificate = nil, nil
	var all []*machine.Agent
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	for i := range 12 {
		a, err := machine.New(machine.Config{Servers: urls, Token: token, MachineID: fmt.Sprintf("%s-%d", name, i),
			Pool: "gpu", Interval: time.Second, TLS: conf}, hardware{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
		running.Go(func() { _ = a.Run(ctx) })
	}
	for _, a := range all {
		harness.Until(t, "an agent to be ready", func() (bool, any) { return a.Status().Ready, a.Status().Err })
	}
	return all
}

// watched is a watch of the runs of one machine.
type watched struct {
	mu   sync.Mutex
	runs map[string]bool
}

// watchOf watches the runs of a machine until the test ends, and blocks until it receives events.
func watchOf(t *testing.T, c *harness.Cluster, cl *client.Client, machineID string) *watched {
	t.Helper()
	w := &watched{runs: map[string]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() {
		stop()
		<-done
	})
	go func() {
		defer close(done)
		err := cl.WatchRuns(ctx, filter.Equals("machine_id", machineID), 0, func(e *holdfastv1.RunEvent) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.runs[e.GetSnapshot().GetRunId()] = true
			return nil
		})
		if err != nil && ctx.Err() == nil {
			t.Errorf("watch: %v", err)
		}
	}()
	first := c.Start(machineID, "nothing").GetRunId()
	harness.Until(t, "the watch to begin", func() (bool, any) { return w.saw(first), first })
	c.Ended(first)
	return w
}

func (w *watched) saw(run string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[run]
}

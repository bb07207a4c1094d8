package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/cluster/freeport"
	"github.com/holdfast-metal/holdfast/cmd/holdfast/serve"
	"github.com/holdfast-metal/holdfast/internal/cli"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// asHoldfast makes the test binary act as holdfast: the peers are processes.
const asHoldfast = "SIMULATE_TEST_HOLDFAST"

func TestMain(m *testing.M) {
	if os.Getenv(asHoldfast) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		code := cli.Main(ctx, app.OSStreams(), os.Args[1:], serve.Command("test"))
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// TestSimulate runs a small fleet against three real peers, with TLS and tokens, until every kind
// of call was observed, and then stops it like Ctrl-C.
func TestSimulate(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	block, err := freeport.Claim(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = block.Release() }) // at the end of the test
	bmcs := block.Address("127.0.0.1")
	c, err := localcluster.Start(ctx, localcluster.Config{
		Binary: os.Args[0], Dir: t.TempDir(), Env: []string{asHoldfast + "=1"}, RaftMultiplier: 5, FakeEndpoint: "http://" +
			bmcs,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the directory is removed with the test
	o := Options{Agents: 30, Services: 5, Pools: 2, Machines: 4, Runs: 2, Rate: 100, Ping: leastWait, Connections: 8,
		Prefix: "t", Provider: "fake", Hardware: bmcs}
	run, end := context.WithCancel(ctx)
	defer end()
	o.progress = func(f *fleet) {
		pools, agents, services := f.kinds[0].count(), f.kinds[1].count(), f.kinds[2].count()
		if pools.Heartbeats.Count >= 2 && agents.Heartbeats.Count >= 30 && services.Heartbeats.Count >= 10 &&
			f.declared.Load() == 4 && f.runs.ended.Count() >= 3 {
			end()
		}
	}
	r, err := Run(run, o, client.Config{Addrs: c.Addrs(), TLS: c.TLS()}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Errorf("wait for all kinds of calls: got %+v", r)
	}
	known := map[string]int{}
	for name, k := range r.Kinds {
		known[name] = k.Known
		if k.Forgotten != 0 {
			t.Errorf("%s: got %d forgotten members, want 0", name, k.Forgotten)
		}
	}
	if diff := cmp.Diff(map[string]int{"agents": 30, "services": 5, "pools": 2}, known); diff != "" {
		t.Errorf("registered (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"agents": 0, "services": 0, "pools": 0}, r.Lost); diff != "" {
		t.Errorf("lost (-want +got):\n%s\n%v", diff, r.Notes)
	}
	if diff := cmp.Diff(map[string]int64{"services": 5, "pools": 2}, r.Left); diff != "" {
		t.Errorf("deregistered (-want +got):\n%s\n%v", diff, r.Notes)
	}
	cl, err := client.Dial(client.Config{Addrs: c.Addrs(), TLS: c.TLS()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	services, err := cl.Registry().ListServices(ctx, &holdfastv1.ListServicesRequest{Filter: "active = true"})
	if err != nil || len(services.GetServices()) != 0 {
		t.Errorf("active services after the deregistration: got %v, %v, want none", services.GetServices(), err)
	}
	if r.Peers != 3 || r.Machines != 4 || r.Runs.Phases["SUCCEEDED"] < 3 {
		t.Errorf("got %+v, %+v", r, r.Runs)
	}
	var out bytes.Buffer
	if err := r.write(&out); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", out.String())
}

// TestCommandRefuses checks that invalid simulations are refused before anything is created.
func TestCommandRefuses(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--agents", "-1"}, {"--agents", "1", "--rate", "0"}, {"--agents", "1", "--runs", "1"}, {"--agents", "1", "-o",
			"yaml"}, {"--agents", "1", "--ping", "1ms"},
	} {
		cmd := Command(func(*cobra.Command) (client.Config, error) {
			return client.Config{Addrs: []string{"127.0.0.1:1"}},
				nil
		})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%v: got no error", args)
		}
	}
}

// TestReportIsJSON checks that the JSON has all counts.
func TestReportIsJSON(t *testing.T) {
	k := &kind{name: "agents", members: make([]member, 3)}
	k.seen.registered.Add(time.Second)
	k.seen.fail(503, nil)
	k.seen.fail(0, context.DeadlineExceeded)
	b, err := json.Marshal(k.count())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"members":3,"known":1,"registered":{"count":1,"p50_seconds":1,"p99_seconds":1,"max_seconds":1},"heartbeats":{"count":0,"p50_seconds":0,"p99_seconds":0,"max_seconds":0},"forgotten":0,"failures":{"503":1,"no answer":1},"late_p99_seconds":0}`
	if diff := cmp.Diff(want, string(b)); diff != "" {
		t.Error(diff)
	}
}

package harness

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/test/logstore"
)

// Patience bounds waits for events that usually take a second or two, because the machine
// may be busy.
const Patience = 60 * time.Second

// Options configure a cluster.
type Options struct {
	Fleet          []string // further arguments of the fake hardware, e.g. "--latency", "20ms"
	FleetConfig    string   // its configuration, YAML
	RaftMultiplier float64  // default 0.5
	Args           []string // further arguments of each peer
	Insecure       bool     // no TLS, for peers that communicate with others without TLS
	Failpoints     string   // replaces the environment variable of Failpoints
}

// Cluster is three peers with fake hardware, and a client that knows all of them.
type Cluster struct {
	*localcluster.Cluster
	Client *client.Client
	Fake   *localcluster.FakeHardware
	Dir    string
	Points Failpoints

	t testing.TB
}

// Cluster starts a cluster that ends with the test. Its directory is removed. If the test
// has failed, or with HOLDFAST_TEST_KEEP=1, it is kept, and after a failure the ends of its
// logs are shown. A data race or a panic in a peer fails the test.
func (b *Bench) Cluster(t testing.TB, o Options) *Cluster {
	t.Helper()
	b.room <- struct{}{}
	t.Cleanup(func() { <-b.room })
	dir, err := os.MkdirTemp("", "holdfast-test-")
	if err != nil {
		t.Fatal(err)
	}
	if o.RaftMultiplier == 0 {
		o.RaftMultiplier = 0.5
	}
	c := &Cluster{Dir: dir, t: t}
	t.Cleanup(c.tidy)
	if c.Points, err = newFailpoints(filepath.Join(dir, "failpoints")); err != nil {
		t.Fatal(err)
	}
	if o.Failpoints == "" {
		o.Failpoints = c.Points.environment()
	}
	args := o.Fleet
	if o.FleetConfig != "" {
		file := filepath.Join(dir, "fleet.yaml")
		if err := os.WriteFile(file, []byte(o.FleetConfig), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", file)
	}
	stores, err := logstore.Selected(logstore.WAL, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(stores.Text(3))
	ctx, stop := context.WithTimeout(context.Background(), Patience)
	defer stop()
	if c.Fake, err = localcluster.StartFakeHardware(ctx, b.Binary, dir, args...); err != nil {
		t.Fatal(err)
	}
	c.Cluster, err = localcluster.Start(ctx, localcluster.Config{
		Binary:         b.Binary,
		Dir:            dir,
		FakeEndpoint:   c.Fake.Endpoint,
		RaftMultiplier: o.RaftMultiplier,
		Insecure:       o.Insecure,
		Env:            []string{o.Failpoints},
		Args:           append(snapshots(), o.Args...),
		ArgsOf:         stores.Args,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Client = c.Dial(c.Addrs()...)
	return c
}

// snapshots makes peers take a snapshot every few seconds. Otherwise replaying the log with
// the race detector takes a minute, and each restart waits for it.
func snapshots() []string {
	return []string{"--raft-snapshot-threshold", "256", "--raft-snapshot-interval", "2s"}
}

// In returns the same cluster for a subtest, which then reports the failures.
func (c *Cluster) In(t testing.TB) *Cluster {
	same := *c
	same.t = t
	return &same
}

// Through returns the same cluster with a client that knows only some of its peers: a hung
// peer costs a client seconds.
func (c *Cluster) Through(peers ...*localcluster.Peer) *Cluster {
	c.t.Helper()
	same := *c
	var addrs []string
	for _, p := range peers {
		addrs = append(addrs, p.GRPCAddr)
	}
	same.Client = c.Dial(addrs...)
	return &same
}

// Dial returns a client of some peers. It is closed at the end of the test.
func (c *Cluster) Dial(addrs ...string) *client.Client {
	c.t.Helper()
	cl, err := client.Dial(client.Config{Addrs: addrs, TLS: c.TLS(), Timeout: Patience})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = cl.Close() })
	return cl
}

// Rotated returns a client for each peer, which tries that peer first and then the others.
func (c *Cluster) Rotated() []*client.Client {
	c.t.Helper()
	var all []*client.Client
	addrs := c.Addrs()
	for i := range addrs {
		all = append(all, c.Dial(append(append([]string{}, addrs[i:]...), addrs[:i]...)...))
	}
	return all
}

// Conn returns a connection to one peer, without the client's retries. It is closed at the
// end of the test.
func (c *Cluster) Conn(p *localcluster.Peer) *grpc.ClientConn {
	c.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+p.GRPCAddr, grpc.WithTransportCredentials(c.Credentials()))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// tidy stops everything and checks the logs.
func (c *Cluster) tidy() {
	if c.Cluster != nil {
		if err := c.Close(); err != nil {
			c.t.Errorf("stop the cluster: %v", err)
		}
	}
	if c.Fake != nil {
		if err := c.Fake.Close(); err != nil {
			c.t.Errorf("stop the fake hardware: %v", err)
		}
	}
	logs, err := filepath.Glob(filepath.Join(c.Dir, "*.log"))
	if err != nil {
		c.t.Error(err)
	}
	for _, name := range logs {
		if found := trouble(name); found != "" {
			c.t.Errorf("%s has:\n%s", filepath.Base(name), found)
		}
	}
	keep := os.Getenv("HOLDFAST_TEST_KEEP") != ""
	if !c.t.Failed() && !keep {
		_ = os.RemoveAll(c.Dir)
		return
	}
	c.t.Logf("kept %s", c.Dir)
	if !c.t.Failed() {
		return
	}
	for _, name := range logs {
		b, err := os.ReadFile(name)
		if err != nil {
			c.t.Error(err)
		}
		c.t.Logf("the end of %s:\n%s", filepath.Base(name), lastLines(b, 40))
	}
}

// trouble returns a text in a log that no log may contain.
func trouble(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	for _, mark := range []string{"WARNING: DATA RACE", "\npanic: ", "\nfatal error: ", "http: panic serving"} {
		if i := bytes.Index(b, []byte(mark)); i >= 0 {
			return string(b[i:min(len(b), i+6000)])
		}
	}
	return ""
}

func lastLines(b []byte, n int) string {
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/bench/cores"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/bench/rival"
	"github.com/holdfast-metal/holdfast/cmd/holdfast/serve"
	"github.com/holdfast-metal/holdfast/internal/cli"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/demo"
	"github.com/holdfast-metal/holdfast/providers/ironic/ironiclab"
)

// asHoldfast makes the test binary act as holdfast and holdfast-bench: benchmarks start peers and
// empty handlers from it.
const asHoldfast = "BENCH_TEST_HOLDFAST"

func TestMain(m *testing.M) {
	if os.Getenv(asHoldfast) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		code := cli.Main(ctx, app.OSStreams(), os.Args[1:], serve.Command("test"), demo.FakeHardwareCommand(),
			rival.TargetCommand(newMachine(0)))
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// bench runs a benchmark like a user, and returns its report.
func bench(t *testing.T, args ...string) *report.Report {
	t.Helper()
	t.Setenv(asHoldfast, "1")
	cmd := Command("test")
	var out bytes.Buffer
	var notes strings.Builder
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SetArgs(append(args, "-o", "json", "--raft-multiplier", "5", "--holdfast", self))
	cmd.SetOut(&out)
	cmd.SetErr(&notes)
	cmd.SilenceUsage = true
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("bench %s: %v\n%s", strings.Join(args, " "), err, notes.String())
	}
	var r report.Report
	if err := json.NewDecoder(io.Reader(&out)).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// TestSmokeCompare runs compare with one build on both sides, and scaling with as little as fits.
func TestSmokeCompare(t *testing.T) {
	if os.Getenv("BENCH_SMOKE") == "" {
		t.Skip("takes a minute: run make bench-smoke, or set BENCH_SMOKE=1")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ref := t.TempDir()
	if err := os.Symlink(self, filepath.Join(ref, "holdfast")); err != nil {
		t.Fatal(err)
	}
	small := strings.Fields("--clients 2 --connections 2 --watchers 20 --runs 20 --rounds 1 --slice 200ms")
	r := bench(t, append([]string{"compare", "--ref", ref}, small...)...)
	var got []string
	for _, p := range r.Pairs {
		if p.Ratio > 0 && p.What == "rate" {
			got = append(got, p.Bench)
		}
	}
	want := []string{"startrun.2", "engine.2", "reads.quiet", "reads.writes", "reads.1000/s", "watch.20", "steps.20",
		"plan"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pairs with a ratio (-want +got):\n%s", diff)
	}
	groups, err := cores.New(cores.Hierarchies()...)
	if err != nil || runtime.NumCPU() < 2 {
		t.Skipf("scaling needs two processors and control groups: %v", err)
	}
	if err := groups.Close(); err != nil {
		t.Fatal(err)
	}
	r = bench(t, append([]string{"scaling", "--only", "3x0.5"}, small...)...)
	if len(r.Scales) != 6 || r.Scales[0].Rate <= 0 {
		t.Errorf("got %+v, want six rows", r.Scales)
	}
}

// TestSmoke runs the smallest benchmarks: each measures something with real peers (make
// bench-smoke).
func TestSmoke(t *testing.T) {
	if os.Getenv("BENCH_SMOKE") == "" {
		t.Skip("takes a minute: run make bench-smoke, or set BENCH_SMOKE=1")
	}
	whole := []string{"runs.rate", "runs.gets", "plan.p50", "flight.rate", "flight.entries"}
	if (ironiclab.Config{}).Missing() == "" {
		whole = append(whole, "runs.vs_ironic", "runs.cpu_vs_ironic", "runs.p50_vs_ironic", "runs.gets_vs_ironic",
			"runs.ironic_rate", "runs.ironic_api_cpu")
	}
	for _, tt := range []struct {
		args string
		want []string // figures that must be positive
	}{
		{"commit --clients 2 --rounds 1 --slice 100ms --vs none", []string{"commit.2.vs_engine", "commit.2.rate",
			"commit.2.p99"}},
		{"commit --clients 2 --rounds 1 --slice 200ms", []string{"commit.2.vs_etcd", "commit.2.etcd_rate"}},
		{"commit --only edge --rounds 1 --slice 200ms", []string{"edge.vs_grpc", "edge.leader_cpu"}},
		{"read --connections 2 --rounds 1 --slice 100ms", []string{"read.quiet.vs_stale", "read.quiet.grpc_rate",
			"read.quiet.etcd_rate", "read.writes.rate", "read.writes.paced_p50"}},
		{"failover --kills 1", []string{"failover.writes_p50", "failover.reads_p50", "failover.etcd_p50",
			"failover.stop_p50"}},
		{"watch --watchers 20", []string{"watch.all_p99"}},
		{"runs --runs 20 --rounds 1 --slice 100ms", whole},
		{"runs --only whole --rounds 1 --slice 100ms --vs none", whole[:2]},
		{"growth --machines 300,600 --slice 100ms", []string{"growth.300.get", "growth.600.page", "growth.300.keepalive",
			"growth.600.keepalive", "growth.600.memory", "growth.600.restore", "growth.600.restore_cpu",
			"growth.300.restore_empty", "growth.600.restore_empty_cpu", "growth.page"}},
		{"keepalive --only fleet --agents 60 --keepalive 1s --settle 1s --duration 1s",
			[]string{"fleet.rate", "fleet.after.p50"}},
		{"keepalive --only fresh --fresh 60 --connections 2 --settle 1s --rounds 1 --slice 200ms",
			[]string{"fresh.rate_ratio", "fresh.p99"}},
		{"idle --duration 2s", []string{"idle.leader_cpu"}},
	} {
		t.Run(strings.ReplaceAll(tt.args, " ", "_"), func(t *testing.T) {
			r := bench(t, strings.Fields(tt.args)...)
			for _, id := range tt.want {
				f := slices.IndexFunc(r.Figures, func(f report.Figure) bool { return f.ID == id })
				if f < 0 || r.Figures[f].Value <= 0 {
					t.Errorf("%s: got %+v, want more than 0", id, r.Figures)
				}
			}
		})
	}
}

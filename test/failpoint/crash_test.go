package failpoint

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/lab"
	"github.com/holdfast-metal/holdfast/test/logstore"
	"github.com/holdfast-metal/holdfast/test/overlay"
	"github.com/holdfast-metal/holdfast/test/program"
	"github.com/holdfast-metal/holdfast/test/robustness/check"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// patience is the time limit of one crash on a busy machine.
const patience = 2 * time.Minute

// TestCrash kills a peer under traffic at each line between two durable effects, and restarts it.
// No acknowledged write may be lost, every run must end, no effect may happen twice, and all peers
// must have the same state. Without CRASH=1, it crashes only the quick points.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("crashes clusters of processes")
	}
	binary := build(t)
	var forming, steady, archive, bmc, restore []string
	for _, name := range slices.Sorted(maps.Keys(scenarios())) {
		switch s := scenarios()[name]; {
		case os.Getenv("CRASH") == "" && !s.quick:
		case s.forming:
			forming = append(forming, name)
		case s.archive:
			archive = append(archive, name)
		case s.bmc:
			bmc = append(bmc, name)
		case s.restore:
			restore = append(restore, name)
		default:
			steady = append(steady, name)
		}
	}
	for _, name := range forming {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashForming(t, binary, name)
		})
	}
	t.Run("steady", func(t *testing.T) {
		t.Parallel()
		crashSteady(t, binary, steady)
	})
	t.Run("archive", func(t *testing.T) {
		t.Parallel()
		crashArchive(t, binary, archive)
	})
	t.Run("restore", func(t *testing.T) {
		t.Parallel()
		crashRestore(t, binary, restore)
	})
	t.Run("bmc", func(t *testing.T) {
		t.Parallel()
		if len(bmc) == 0 {
			t.Skip("needs CRASH=1")
		}
		t.Run("points", func(t *testing.T) { crashBMC(t, binary, bmc) })
		t.Run("silent", func(t *testing.T) { crashSilent(t, binary) })
	})
}

// build builds the product with its failpoints, the race detector and frequent snapshots.
func build(t *testing.T) string {
	t.Helper()
	root, err := overlay.Root(".")
	if err != nil {
		t.Fatal(err)
	}
	o := overlay.New(root)
	if _, err := Arm(o); err != nil {
		t.Fatal(err)
	}
	for before, after := range map[string]string{
		"setDefault(&c.SnapshotThreshold, 8192)":          "setDefault(&c.SnapshotThreshold, 64)",
		"setDefault(&c.SnapshotInterval, 30*time.Second)": "setDefault(&c.SnapshotInterval, time.Second)",
		// A few seconds of this traffic. With less, a peer that has restored a snapshot already
		// needs the next one.
		"setDefault(&c.TrailingLogs, 10240)": "setDefault(&c.TrailingLogs, 512)",
	} {
		if err := o.Patch("cluster/config.go", before, after); err != nil {
			t.Fatal(err)
		}
	}
	if err := logstore.SmallSegments(o); err != nil {
		t.Fatal(err)
	}
	// The leader must not continue without a peer that is stopped while it reads.
	if err := o.Patch("server/internal/operator/readers.go", "readGrace = time.Second",
		"readGrace = 30 * time.Second"); err != nil {
		t.Fatal(err)
	}
	if err := o.Patch("executor/monitor/recover.go", "recoverPatience = 2 * time.Minute",
		"recoverPatience = 3 * time.Second"); err != nil {
		t.Fatal(err)
	}
	binary, err := program.Build{Race: true, Overlay: o}.Into(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// open starts a cluster whose points can be armed, and restarts peers that die. Peers get args as
// further arguments. The directory is kept if the test fails.
func open(t *testing.T, binary string, args []string, points ...string) (*lab.Lab, Switches) {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-crash-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kept %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	s, err := NewSwitches(filepath.Join(dir, "failpoints"), points...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range points {
		if scenarios()[p].forming {
			if err := s.Arm(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	keys, err := workload.SecretsKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	stores, err := logstore.Selected(logstore.WAL, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(stores.Text(3))
	l, err := lab.Open(t.Context(), lab.Config{Binary: binary, Dir: dir, Args: slices.Concat(keys, args), Stores: stores,
		Env: []string{environment(s, points)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Revive(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
		if err := l.Close(); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
		for _, problem := range lab.Trouble(dir) {
			t.Error(problem)
		}
	})
	return l, s
}

// environment returns the environment variable of peers that die at some points and stop at others.
func environment(s Switches, points []string) string {
	var die, stop []string
	for _, p := range points {
		if scenarios()[p].stops {
			stop = append(stop, p)
		} else {
			die = append(die, p)
		}
	}
	if len(stop) == 0 {
		return s.Environment(die...)
	}
	name, at, _ := strings.Cut(s.StopEnvironment(stop...), "=")
	return name + "=" + at + "," + strings.TrimPrefix(s.Environment(die...), name+"=")
}

// crashForming kills a peer of a cluster that forms.
func crashForming(t *testing.T, binary, point string) {
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	l, s := open(t, binary, nil, point)
	if err := lab.Until(ctx, "a peer to die at "+point, func() bool {
		return s.Fired(point) && l.Deaths() > 0
	}); err != nil {
		t.Fatal(err)
	}
	if err := l.Steady(ctx); err != nil {
		t.Fatal(err)
	}
	if n := l.Deaths(); n != 1 {
		t.Errorf("got %d dead peers, want 1", n)
	}
	w := workload.New(workload.Config{Seed: 1, MinOps: 50, Clients: 4, Lasts: 2 * time.Second}, l.Target())
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	for _, err := range check.Truth(ctx, w.History(), l.Target(), t.TempDir()) {
		t.Error(err)
	}
}

// crashSteady kills a peer of one cluster at each point in turn, under constant traffic.
func crashSteady(t *testing.T, binary string, points []string) {
	l, s := open(t, binary, nil, points...)
	start, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := l.Steady(start); err != nil {
		t.Fatal(err)
	}
	if err := prepare(start, l); err != nil {
		t.Fatal(err)
	}
	if err := l.Plan(start, "fp-whole", lab.Step("boot", &holdfastv1.SetNetboot{Mode: "PXE"}),
		lab.Step("restart", &holdfastv1.Reboot{Mode: "bmc", ShutdownSeconds: 3}),
		lab.Step("install", &holdfastv1.RepaveImage{Image: "debian-13"}), lab.Script("talk",
			workload.TalkScript)); err != nil {
		t.Fatal(err)
	}
	w := workload.New(workload.Config{Seed: 1, MinOps: 20 * len(points), Clients: 6}, l.Target())
	traffic, enough := context.WithCancel(t.Context())
	defer enough()
	done := make(chan error, 1)
	go func() { done <- w.Run(traffic) }()
	for _, point := range points {
		t.Run(point, func(t *testing.T) { crashOnce(t, l, s, point) })
	}
	enough()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	end, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := l.Steady(end); err != nil {
		t.Fatal(err)
	}
	if err := w.Settle(end); err != nil {
		t.Fatal(err)
	}
	report, err := os.MkdirTemp("", "holdfast-crash-report-")
	if err != nil {
		t.Fatal(err)
	}
	found := check.All(end, w.History(), l.Target(), report)
	for _, err := range found {
		t.Error(err)
	}
	if len(found) == 0 {
		_ = os.RemoveAll(report)
	}
}

// crashOnce kills a peer at a point during a run that must succeed.
func crashOnce(t *testing.T, l *lab.Lab, s Switches, point string) {
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	machine := "m-" + point
	if err := l.Register(ctx, machine); err != nil {
		t.Fatal(err)
	}
	before := l.Deaths()
	run, err := l.Start(ctx, machine, "fp-whole")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := s.Arm(point); err != nil {
		t.Fatal(err)
	}
	if provoke := scenarios()[point].provoke; provoke != nil {
		if err := provoke(ctx, l); err != nil {
			t.Fatal(err)
		}
	}
	err = lab.Until(ctx, "a peer to die at "+point, func() bool { return s.Fired(point) && l.Deaths() > before })
	fired, derr := s.Disarm(point)
	if err != nil || derr != nil || !fired {
		t.Fatalf("die at %s: got %v, %v, %v", point, fired, err, derr)
	}
	died := time.Since(began)
	if err := l.Ended(ctx, run.GetRunId(), holdfastv1.Run_SUCCEEDED); err != nil {
		t.Error(err)
	}
	if err := l.Steady(ctx); err != nil {
		t.Fatal(err)
	}
	if n := l.Deaths() - before; n != 1 {
		t.Errorf("got %d dead peers, want 1", n)
	}
	t.Logf("died after %s, steady after %s", died.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

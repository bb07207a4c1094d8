// Package robustness breaks clusters of real processes under traffic, in the manner of Jepsen and
// of etcd's robustness tests, and has every promise checked that Holdfast makes. README.md says
// how; docs/reliability.md has the figures.
package robustness

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/test/overlay"
	"github.com/holdfast-metal/holdfast/test/program"
	"github.com/holdfast-metal/holdfast/test/robustness/chaos"
	"github.com/holdfast-metal/holdfast/test/robustness/fault"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
	"github.com/holdfast-metal/holdfast/test/robustness/private"
	"github.com/holdfast-metal/holdfast/test/robustness/site"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// The environment that the tests below read:
//
//	HOLDFAST_TEST_BINARY=path   what to test instead of a new build, which has short leases: what is given has the ordinary ones
//	HOLDFAST_TEST_AGENT=path    the holdfast-agent to test; without, and with a binary given, no agent is a process
//	HOLDFAST_TEST_FRONT=path    the BMCs (test/bmclab/front); without, they are built
//	CHAOS=1            run TestChaos, which takes about two minutes for each of its two seeds
//	CHAOS_SEED=n       run TestChaos once, with this seed and all faults; a failure prints the line to use
//	CHAOS_FAULTS=a,b   only these faults
//	CHAOS_COUNT=n      so many faults
//	SOAK_MINUTES=n     run TestSoak for so long
//	SOAK_RACE=1        run it with the race detector, which wants a machine for itself after some minutes
//	CHAOS_DIR=path     where reports go; default is the directory for temporary files

// fixedSeed is the one that every run has in common.
const fixedSeed = 1

func env(t *testing.T, name string, def int64) int64 {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return def
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		t.Fatalf("read %s=%q: %v", name, v, err)
	}
	return n
}

// A cluster under traffic that is broken in every way we have, one after the other, keeps every
// promise.
func TestChaos(t *testing.T) {
	if os.Getenv("CHAOS") == "" {
		t.Skip("it takes minutes: run make chaos, or set CHAOS=1")
	}
	faults, err := chaos.Named(os.Getenv("CHAOS_FAULTS"))
	if err != nil {
		t.Fatal(err)
	}
	if !inPrivate(t, true) {
		return
	}
	if seed := env(t, "CHAOS_SEED", 0); seed != 0 {
		round(t, chaos.Round{Seed: seed, Faults: faults, Count: int(env(t, "CHAOS_COUNT", int64(len(faults))))})
		return
	}
	// Half of the faults with a seed that never changes, the other half with a new one.
	var halves [2][]fault.Fault
	for i, f := range faults {
		halves[i%2] = append(halves[i%2], f)
	}
	for i, seed := range []int64{fixedSeed, time.Now().UnixNano() % 1e9} {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			round(t, chaos.Round{Seed: seed, Faults: halves[i], Count: int(env(t, "CHAOS_COUNT", int64(len(halves[i]))))})
		})
	}
}

// The same, short: that it works at all.
func TestChaosSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute: run without -short")
	}
	if !inPrivate(t, true) {
		return
	}
	faults, err := chaos.Named("kill-leader,isolate-leader")
	if err != nil {
		t.Fatal(err)
	}
	round(t, chaos.Round{Seed: fixedSeed, Faults: faults, Count: 2, MinOps: 100})
}

// The environment that a private process gets its executables by.
const (
	binaryVar = "HOLDFAST_TEST_BINARY"
	agentVar  = "HOLDFAST_TEST_AGENT"
	frontVar  = "HOLDFAST_TEST_FRONT"
	shortVar  = "HOLDFAST_TEST_SHORT_LEASES" // set: the binary was built with them
)

// executables are what is tested.
type executables struct {
	holdfast, agent string
	front           string // of BMCs
	leases          workload.Leases
}

// build returns what is tested: what the environment names, or new executables, of which holdfast
// has short leases.
func build(t *testing.T, race bool) executables {
	t.Helper()
	front := os.Getenv(frontVar)
	if front == "" {
		var err error
		if front, err = (program.Build{Package: site.Front}).Into(t.Context(), t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	if name := os.Getenv(binaryVar); name != "" {
		e := executables{holdfast: name, agent: os.Getenv(agentVar), front: front, leases: workload.OrdinaryLeases()}
		if os.Getenv(shortVar) != "" {
			e.leases = workload.ShortLeases()
		}
		return e
	}
	dir := t.TempDir()
	e := executables{front: front, leases: workload.ShortLeases()}
	root, err := overlay.Root(".")
	if err != nil {
		t.Fatal(err)
	}
	o := overlay.New(root)
	for _, edit := range workload.ShortLeaseEdits() {
		if err := o.Patch(edit.File, edit.Before, edit.After); err != nil {
			t.Fatal(err)
		}
	}
	if e.holdfast, err = (program.Build{Race: race, Overlay: o}).Into(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if e.agent, err = (program.Build{Package: "cmd/holdfast-agent"}).Into(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return e
}

// inPrivate reports whether the test is to go on in this process: a private one, or the only one
// where there can be none.
func inPrivate(t *testing.T, race bool) bool {
	t.Helper()
	if private.Missing() != "" || private.Inside() {
		return true
	}
	e := build(t, race)
	short := ""
	if e.leases[workload.Machine] == workload.ShortLeases()[workload.Machine] {
		short = "1"
	}
	return private.Again(t, binaryVar+"="+e.holdfast, agentVar+"="+e.agent, frontVar+"="+e.front, shortVar+"="+short)
}

// cluster starts one for chaos. The multiplier is of Raft's timeouts, the arguments are for each
// peer. When the test has failed its report is kept, and its path printed.
func cluster(t *testing.T, e executables, seed int64, multiplier float64, args []string) *harness.Cluster {
	t.Helper()
	reports := os.Getenv("CHAOS_DIR")
	if reports != "" {
		if err := os.MkdirAll(reports, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp(reports, fmt.Sprintf("holdfast-chaos-%d-", seed))
	if err != nil {
		t.Fatal(err)
	}
	story, err := os.Create(filepath.Join(dir, "story.txt"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := workload.SecretsKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	c, err := harness.Start(ctx, harness.Config{Binary: e.holdfast, Front: e.front, Dir: dir, Seed: seed,
		RaftMultiplier: multiplier, Args: append(args, keys...),
		Segments: 1 + int(uint64(seed)%3), Log: slog.New(slog.NewTextHandler(output2{story, os.Stderr}, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the report is in %s", dir)
			t.Logf("to run it again: make chaos SEED=%d", seed)
		}
		if err := c.Close(t.Failed()); err != nil {
			t.Error(err)
		}
		_ = story.Close()
	})
	return c
}

// output2 is two places for one log.
type output2 [2]*os.File

func (o output2) Write(b []byte) (int, error) {
	for _, f := range o {
		if n, err := f.Write(b); err != nil {
			return n, err
		}
	}
	return len(b), nil
}

func round(t *testing.T, r chaos.Round) {
	t.Helper()
	e := build(t, true)
	c := cluster(t, e, r.Seed, harness.QuickRaft, harness.OftenSnapshots())
	r.Report, r.Leases, r.Agent = c.Dir, e.leases, e.agent
	c.Log.Info("round", "seed", r.Seed, "faults", r.Count)
	injected, err := r.Run(t.Context(), c)
	for _, f := range injected {
		t.Logf("%8s  %-24s mended after %s, all well %s later", f.After, f.Name, f.Broke, f.Well)
	}
	if err != nil {
		t.Errorf("seed %d: %v", r.Seed, err)
	}
}

// Package robustness breaks clusters of real processes under traffic, like Jepsen and etcd's
// robustness tests, and checks the promises of docs/reliability.md. See README.md.
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

	"github.com/holdfast-metal/holdfast/test/logstore"
	"github.com/holdfast-metal/holdfast/test/overlay"
	"github.com/holdfast-metal/holdfast/test/program"
	"github.com/holdfast-metal/holdfast/test/robustness/chaos"
	"github.com/holdfast-metal/holdfast/test/robustness/fault"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
	"github.com/holdfast-metal/holdfast/test/robustness/private"
	"github.com/holdfast-metal/holdfast/test/robustness/site"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// The environment of the tests:
//
//	HOLDFAST_TEST_BINARY=path   holdfast with ordinary leases; default: new, short leases
//	HOLDFAST_TEST_AGENT=path    holdfast-agent; without it and with a binary, no agent is a process
//	HOLDFAST_TEST_BMC=path    the BMCs (test/bmclab/bmcserver); default: a new build
//	CHAOS=1            run TestChaos, which takes about two minutes for each of its two seeds
//	CHAOS_SEED=n       run TestChaos once, with this seed and all faults
//	CHAOS_FAULTS=a,b   inject only these faults
//	CHAOS_COUNT=n      inject n faults
//	SOAK_MINUTES=n     run TestSoak for n minutes
//	SOAK_RACE=1        use the race detector in TestSoak, which then needs an otherwise idle machine
//	HOLDFAST_TEST_LOG_STORE=s   wal or boltdb on all peers; default: mixed, wal on all peers but one
//	CHAOS_DIR=path     directory of reports; default: the directory for temporary files

// fixedSeed is the seed of half of the faults in every run.
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

// TestChaos injects every fault, one after the other, into a cluster under traffic, and checks
// every promise.
func TestChaos(t *testing.T) {
	if os.Getenv("CHAOS") == "" {
		t.Skip("takes minutes: run make chaos, or set CHAOS=1")
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
	// One half of the faults with the fixed seed, the other half with a new one.
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

// TestChaosSmoke is a short TestChaos.
func TestChaosSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute: run without -short")
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

// The environment variables that give a private process its executables.
const (
	binaryVar = "HOLDFAST_TEST_BINARY"
	agentVar  = "HOLDFAST_TEST_AGENT"
	bmcVar    = "HOLDFAST_TEST_BMC"
	shortVar  = "HOLDFAST_TEST_SHORT_LEASES" // set if the binary has short leases
)

// executables are the executables under test.
type executables struct {
	holdfast, agent string
	bmcServer       string // of BMCs
	leases          workload.Leases
}

// build returns the executables that the environment names, or new ones. A new holdfast has short
// leases.
func build(t *testing.T, race bool) executables {
	t.Helper()
	bmcServer := os.Getenv(bmcVar)
	if bmcServer == "" {
		var err error
		if bmcServer, err = (program.Build{Package: site.BMCServer}).Into(t.Context(), t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	if name := os.Getenv(binaryVar); name != "" {
		e := executables{holdfast: name, agent: os.Getenv(agentVar), bmcServer: bmcServer, leases: workload.OrdinaryLeases()}
		if os.Getenv(shortVar) != "" {
			e.leases = workload.ShortLeases()
		}
		return e
	}
	dir := t.TempDir()
	e := executables{bmcServer: bmcServer, leases: workload.ShortLeases()}
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
	if err := logstore.SmallSegments(o); err != nil {
		t.Fatal(err)
	}
	b := program.Build{Race: race, Overlay: o}
	if race {
		b.Tags = []string{"rowguard"} // find a caller that changes a stored message
	}
	if e.holdfast, err = b.Into(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if e.agent, err = (program.Build{Package: "agent/holdfast-agent"}).Into(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return e
}

// inPrivate reports whether the test continues in this process: in a private one, or if no private
// one is possible.
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
	return private.Again(t, binaryVar+"="+e.holdfast, agentVar+"="+e.agent, bmcVar+"="+e.bmcServer, shortVar+"="+short)
}

// cluster starts a cluster. multiplier is that of Raft's timeouts, and args are for each peer. If
// the test fails, the report is kept and its path printed.
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
	stores, err := logstore.Selected(logstore.Mixed, int(uint64(seed)%3))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	c, err := harness.Start(ctx, harness.Config{Binary: e.holdfast, BMCServer: e.bmcServer, Dir: dir, Seed: seed,
		RaftMultiplier: multiplier, Args: append(args, keys...),
		Stores: stores, Log: slog.New(slog.NewTextHandler(output2{story, os.Stderr}, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("report: %s", dir)
			t.Logf("repeat with: make chaos SEED=%d", seed)
		}
		if err := c.Close(t.Failed()); err != nil {
			t.Error(err)
		}
		_ = story.Close()
	})
	return c
}

// output2 copies one log to two files.
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
		t.Logf("%8s  %-24s repaired after %s, healthy %s later", f.After, f.Name, f.Broke, f.Well)
	}
	if err != nil {
		t.Errorf("seed %d: %v", r.Seed, err)
	}
}

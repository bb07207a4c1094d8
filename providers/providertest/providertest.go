// Package providertest is the conformance suite of providers. It checks what the executor relies
// on, against any implementation of the capability interfaces, fake or real.
//
// It owns no hardware and starts nothing: a Setup supplies the provider and a machine that may be
// powered off, rebooted and, if the Setup allows it, installed.
package providertest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// Effect is an effect that was observed independently of the provider.
type Effect struct {
	Op   providers.Op
	Name string // as the fake fleet names effects, e.g. power_off
}

// Setup is the setup of one test. Tests are skipped if the optional field they need is not set.
type Setup struct {
	Provider providers.Provider
	Machine  providers.Machine // powered on, its host up

	Wait time.Duration // for any change to show; default 10s
	Poll time.Duration // interval of polls; default 10ms

	Image      string        // optional: the image to install, which destroys the data on the machine
	ClusterRef string        // optional: the cluster to join, which the host must not be part of
	NetConfig  string        // optional: a working network configuration
	Rollback   time.Duration // of NetConfig; default a tenth of Wait
	MediaURL   string        // optional: the image to insert
	ClearLog   bool          // optional: the event log may be cleared
	ResetBMC   bool          // optional: the BMC may be reset, and was not within the last hour
	NoSoftOff  bool          // Machine has no soft way off: it is refused as unsupported

	Silent  providers.Machine // optional: a machine that never answers
	Missing providers.Machine // optional: a machine that does not exist, or refuses our credentials

	// Broken is optional. It breaks a part of Machine and returns the problem that must show.
	Broken func(ctx context.Context) providers.Problem

	// Effects is optional. It returns what really happened to Machine, in order.
	Effects func(ctx context.Context) ([]Effect, error)
}

// Run runs the whole suite. It calls setup for every test. setup may return the same machine each
// time, because tests leave it powered on and booted.
func Run(t *testing.T, setup func(t *testing.T) Setup) {
	groups := []struct {
		name  string
		tests map[string]func(*harness)
	}{
		{"Inspect", inspectTests()},
		{"Health", healthTests()},
		{"Power", powerTests()},
		{"Boot", bootTests()},
		{"Media", mediaTests()},
		{"Command", commandTests()},
		{"Output", outputTests()},
		{"Join", joinTests()},
		{"Network", networkTests()},
		{"Console", consoleTests()},
		{"Care", careTests()},
		{"Errors", errorTests()},
		{"Late", lateTests()},
		{"Install", installTests()},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, name := range slices.Sorted(maps.Keys(g.tests)) {
				t.Run(name, func(t *testing.T) { g.tests[name](newHarness(t, setup(t))) })
			}
		})
	}
}

// harness is one test with its setup.
type harness struct {
	*testing.T
	Setup
	ctx context.Context // of the test
	run string          // run id of its ops
	ops int
}

func newHarness(t *testing.T, s Setup) *harness {
	s.Wait = cmp.Or(s.Wait, 10*time.Second)
	s.Poll = cmp.Or(s.Poll, 10*time.Millisecond)
	s.Rollback = cmp.Or(s.Rollback, s.Wait/10)
	// Tokens must be new, because hardware may remember those of earlier runs of the suite.
	return &harness{T: t, Setup: s, ctx: t.Context(), run: "conformance-" + rand.Text()[:8]}
}

// op returns a new attempt.
func (h *harness) op(step string) providers.Op {
	h.ops++
	return providers.Op{RunID: h.run, Step: step, Attempt: int32(h.ops), Epoch: 1}
}

// eventually polls until ok returns true, and fails the test if it does not in time.
func (h *harness) eventually(what string, ok func() (bool, error)) {
	h.Helper()
	deadline := time.Now().Add(h.Wait)
	for {
		yes, err := ok()
		if yes && err == nil {
			return
		}
		if time.Now().After(deadline) {
			h.Fatalf("%s: not seen within %v (last error: %v)", what, h.Wait, err)
		}
		h.pause()
	}
}

func (h *harness) pause() {
	t := time.NewTimer(h.Poll)
	defer t.Stop()
	select {
	case <-t.C:
	case <-h.ctx.Done():
		h.Fatal("test has ended")
	}
}

// ok fails the test on an error.
func (h *harness) ok(what string, err error) {
	h.Helper()
	if err != nil {
		h.Fatalf("%s: %v", what, err)
	}
}

// classed checks that err has a known class, and returns it.
func (h *harness) classed(what string, err error) providers.Class {
	h.Helper()
	var e *providers.Error
	if err == nil {
		h.Fatalf("%s: got no error, want one", what)
	}
	if !errors.As(err, &e) {
		h.Fatalf("%s: error %v has no class", what, err)
	}
	known := []providers.Class{
		providers.Transient,
		providers.Auth,
		providers.Unsupported,
		providers.Gone,
		providers.Timeout,
		providers.Failed,
		providers.Late,
	}
	if !slices.Contains(known, e.Class) {
		h.Fatalf("%s: class %q is not one of %v", what, e.Class, known)
	}
	return e.Class
}

// counted checks how many effects of a step were observed, if Effects is set, and that each
// belongs to this attempt.
func (h *harness) counted(op providers.Op, name string, want int) {
	h.Helper()
	if h.Effects == nil {
		return
	}
	all, err := h.Effects(h.ctx)
	h.ok("read the effects", err)
	got := 0
	for _, e := range all {
		if e.Name != name || e.Op.RunID != op.RunID || e.Op.Step != op.Step {
			continue
		}
		if got++; e.Op != op {
			h.Fatalf("observed %s of %+v, want it of %+v only", name, e.Op, op)
		}
	}
	if got != want {
		h.Fatalf("observed %s of %s %d times, want %d; all effects: %v", name, op.Token(), got, want, all)
	}
}

// need returns a capability, or skips the test.
func need[C any](h *harness) C {
	h.Helper()
	p, ok := h.Provider.(C)
	if !ok {
		h.Skipf("provider %q does not implement %s", h.Provider.Kind(), reflect.TypeFor[C]().Name())
	}
	return p
}

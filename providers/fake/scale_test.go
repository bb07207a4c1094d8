package fake_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// each runs f for machines 0 to n-1, with some workers.
func each(n, workers int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// TestTenThousandMachines makes a few calls to each machine. Machines without open calls need no
// goroutine, in any state.
func TestTenThousandMachines(t *testing.T) {
	const n = 10_000
	before := runtime.NumGoroutine()
	f := fake.NewFleet(fake.Config{BootTime: fake.Duration(time.Hour)})
	p := fake.New(f)
	each(n, 8, func(i int) {
		m := machine(fmt.Sprint("m-", i))
		if _, err := p.Inspect(t.Context(), m); err != nil {
			t.Error(err)
		}
		if err := p.SetPower(t.Context(), op("reboot"), m, providers.ActionHardOff); err != nil {
			t.Error(err)
		}
		if err := p.SetPower(t.Context(), op("reboot"), m, providers.ActionOn); err != nil {
			t.Error(err)
		}
	})
	if after := runtime.NumGoroutine(); after > before+100 {
		t.Errorf("got %d goroutines, %d before", after, before)
	}
	all := f.Effects("", "", 0)
	if len(all) != 2*n {
		t.Fatalf("got %d effects, want %d", len(all), 2*n)
	}
	offs := make(map[string]bool, n)
	for i, e := range all {
		if e.Seq != i+1 || i > 0 && e.At.Before(all[i-1].At) {
			t.Fatalf("effect %d: got %+v after %+v", i, e, all[i-1])
		}
		if offs[e.MachineID] != (e.Effect == "power_on") {
			t.Fatalf("got effect %+v out of order", e)
		}
		offs[e.MachineID] = true
	}
}

// TestThousandsAtOnce keeps many slow calls open at once, over HTTP.
func TestThousandsAtOnce(t *testing.T) {
	const n = 2000
	f := fake.NewFleet(fake.Config{Faults: fake.Faults{Latency: fake.Duration(300 * time.Millisecond)}})
	s := httptest.NewServer(f.Handler())
	defer s.Close()
	p := dial(t, s.URL, 0)
	each(n, n, func(i int) {
		if err := p.SetPower(t.Context(), op("reboot"), machine(fmt.Sprint("m-", i)), providers.ActionOn); err != nil {
			t.Error(err)
		}
	})
	if got := len(f.Effects("", "", 0)); got != n {
		t.Fatalf("got %d effects, want %d", got, n)
	}
}

// TestConcurrentUse makes all calls to few machines at once while faults change, for the race
// detector and to find locks that are not released.
func TestConcurrentUse(t *testing.T) {
	f := fake.NewFleet(fake.Config{PowerTime: fake.Duration(time.Microsecond), BootTime: fake.Duration(time.Microsecond),
		InstallTime: fake.Duration(time.Microsecond)})
	p := fake.New(f)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	calls := []func(m providers.Machine, o providers.Op) error{
		func(m providers.Machine, _ providers.Op) error { _, err := p.Inspect(ctx, m); return err },
		func(m providers.Machine, o providers.Op) error { return p.SetPower(ctx, o, m, providers.ActionHardOff) },
		func(m providers.Machine, o providers.Op) error { return p.SetPower(ctx, o, m, providers.ActionOn) },
		func(m providers.Machine, o providers.Op) error {
			return p.StartInstall(ctx, o, m, providers.InstallSpec{Image: "debian-12"})
		},
		func(m providers.Machine, o providers.Op) error {
			return p.StartCommand(ctx, o, m, o.Token(), providers.Command{Path: "uptime"})
		},
		func(m providers.Machine, o providers.Op) error {
			_, err := p.CommandStatus(ctx, m, o.Token(), 0)
			return err
		},
		func(m providers.Machine, o providers.Op) error {
			return p.StartJoin(ctx, o, m, providers.JoinSpec{ClusterRef: "prod"})
		},
		func(m providers.Machine, o providers.Op) error {
			return p.ApplyNetwork(ctx, o, m, "x", time.Microsecond)
		},
		func(providers.Machine, providers.Op) error {
			return f.SetFaults(fake.Faults{Fail: 0.1, OnlyFirst: 3}, map[string]fake.Faults{"m-1": {FailAfter: 0.5}})
		},
		func(providers.Machine, providers.Op) error { f.State("m-0"); f.Effects("m-0", "", 0); return nil },
	}
	each(3000, 16, func(i int) {
		o := providers.Op{RunID: "r", Step: fmt.Sprint("s", i%7), Attempt: int32(i)}
		err := calls[i%len(calls)](machine(fmt.Sprint("m-", i%3)), o)
		if err != nil && providers.ClassOf(err) != providers.Transient {
			t.Error(err)
		}
	})
	for i, e := range f.Effects("", "", 0) {
		if e.Seq != i+1 {
			t.Fatalf("effect %d: got seq %d", i, e.Seq)
		}
	}
}

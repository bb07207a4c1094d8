package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

func TestInventory(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range inventory(maxMachines) {
		if bad := fsm.NormalizeMachine(m); len(bad) > 0 {
			t.Fatalf("machine %s: %v", m.GetMachineId(), bad)
		}
		for _, id := range append(m.GetSpec().GetMacAddresses(), m.GetMachineId(), m.GetSpec().GetBmcEndpoint(),
			m.GetSpec().GetSerial()) {
			if seen[id] {
				t.Fatalf("got %s for two machines", id)
			}
			seen[id] = true
		}
	}
}

// At least one retry is visible, and no step can run out of retries, because each effect fails at
// most once per machine.
func TestFailuresCauseRetriesOnly(t *testing.T) {
	for _, n := range []int{1, 12, 500} {
		machines := inventory(n)
		cfg := fleetConfig(machines)
		for id, f := range cfg.Machines {
			f.Latency = 0 // for a quick test
			cfg.Machines[id] = f
		}
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		p := fake.New(fake.NewFleet(cfg))
		joiner := fake.New(fake.NewFleet(cfg)) // of hosts that stay on
		failures := 0
		for _, m := range machines {
			op := providers.Op{RunID: "r", Step: "s", Attempt: 1}
			for name, do := range map[string]func() error{
				"boot_device": func() error { return p.SetBootDevice(t.Context(), op, m, providers.BootDevice{Mode: "PXE"}) },
				"power_off":   func() error { return p.SetPower(t.Context(), op, m, providers.ActionSoftOff) },
				"power_on":    func() error { return p.SetPower(t.Context(), op, m, providers.ActionOn) },
				"install":     func() error { return p.StartInstall(t.Context(), op, m, providers.InstallSpec{Image: "i"}) },
				"join":        func() error { return joiner.StartJoin(t.Context(), op, m, providers.JoinSpec{ClusterRef: "c"}) },
			} {
				if do() != nil {
					failures++
				}
				for range 3 {
					if err := do(); err != nil {
						t.Errorf("%s of %s: got more than one failure: %v", name, m.GetMachineId(), err)
					}
				}
			}
		}
		if failures == 0 || failures > 3+n/3 {
			t.Errorf("%d machines: got %d failures", n, failures)
		}
	}
}

func TestHardwareServes(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	h, err := newHardware(ctx, "127.0.0.1:0", fleetConfig(inventory(1)))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	p, err := fake.NewRemote(h.url(), 0)
	if err != nil {
		t.Fatal(err)
	}
	op := providers.Op{RunID: "r", Step: "s", Attempt: 1}
	for range 2 {
		_ = p.SetPower(ctx, op, inventory(1)[0], providers.ActionHardOff) // the first one may fail
	}
	res, err := http.Get(h.url() + "/effects")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got []fake.Effect
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil || len(got) == 0 || got[0].Effect != powerOff {
		t.Errorf("got effects %v, %v", got, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("stopped: %v", err)
	}
}

package fake_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

func TestLatency(t *testing.T) {
	inLab(t, fake.Faults{Latency: fake.Duration(3 * time.Second)}, func(l *lab) {
		start := time.Now()
		l.power(providers.PowerOn)
		l.press(providers.ActionHardOff)
		if took := time.Since(start); took != 6*time.Second {
			l.Fatalf("two calls took %v, want 6s", took)
		}
		if got := l.fleet.Effects("", "", 0)[0].At; !got.Equal(time.Now()) {
			l.Fatalf("effect was at %v, want after the latency", got)
		}
	})
}

// TestEffectOutlivesItsCaller cancels a press that is on its way to the BMC.
func TestEffectOutlivesItsCaller(t *testing.T) {
	inLab(t, fake.Faults{Latency: fake.Duration(3 * time.Second)}, func(l *lab) {
		ctx, cancel := context.WithTimeout(l.ctx, time.Second)
		defer cancel()
		err := l.p.SetPower(ctx, op("reboot"), l.m, providers.ActionHardOff)
		l.fails(err, providers.Timeout)
		if !errors.Is(err, context.DeadlineExceeded) || len(l.effects()) != 0 {
			l.Fatalf("got %v after a second, and effects %v", err, l.effects())
		}
		_, err = l.p.PowerState(ctx, l.m)
		l.fails(err, providers.Timeout)
		pass(2*time.Second + tick)
		if got := l.effects(); !cmp.Equal(got, []string{"power_off"}) {
			l.Fatalf("got %v, want that the press arrived", got)
		}
		pass(powerTime)
		l.power(providers.PowerOff)
	})
}

func TestFail(t *testing.T) {
	inLab(t, fake.Faults{Fail: 1}, func(l *lab) {
		l.fails(l.p.SetPower(l.ctx, op("reboot"), l.m, providers.ActionHardOff), providers.Transient)
		l.fails(l.p.StartInstall(l.ctx, op("i"), l.m, providers.InstallSpec{Image: "x"}), providers.Transient)
		pass(powerTime)
		l.power(providers.PowerOn) // reading works
		l.install("i", providers.WorkNone)
		if got := l.effects(); len(got) != 0 {
			l.Fatalf("got effects %v, want none", got)
		}
	})
}

func TestFailAfter(t *testing.T) {
	inLab(t, fake.Faults{FailAfter: 1}, func(l *lab) {
		l.fails(l.p.SetPower(l.ctx, op("reboot"), l.m, providers.ActionHardOff), providers.Transient)
		pass(powerTime)
		l.power(providers.PowerOff)
		if got := l.effects(); !cmp.Equal(got, []string{"power_off"}) {
			l.Fatalf("got %v, want the effect", got)
		}
	})
}

func TestHang(t *testing.T) {
	inLab(t, fake.Faults{Hang: []string{"power_off", "inspect"}}, func(l *lab) {
		ctx, cancel := context.WithTimeout(l.ctx, time.Hour)
		defer cancel()
		start := time.Now()
		l.fails(l.p.SetPower(ctx, op("reboot"), l.m, providers.ActionHardOff), providers.Timeout)
		if time.Since(start) != time.Hour {
			l.Fatalf("answered after %v", time.Since(start))
		}
		_, err := l.p.Inspect(ctx, l.m)
		l.fails(err, providers.Timeout)
		l.power(providers.PowerOn)
		l.press(providers.ActionOn) // other operations answer
		if got := l.effects(); !cmp.Equal(got, []string{"power_on"}) {
			l.Fatalf("got %v, want that what hangs does nothing", got)
		}
	})
}

func TestLie(t *testing.T) {
	inLab(t, fake.Faults{Lie: []string{"power_off", "install", "command"}}, func(l *lab) {
		l.press(providers.ActionHardOff)
		l.ok(l.p.StartInstall(l.ctx, op("i"), l.m, providers.InstallSpec{Image: "x"}))
		l.start("ssh", "true")
		pass(powerTime)
		l.power(providers.PowerOn)
		l.install("i", providers.WorkNone)
		l.command("ssh", providers.WorkNone)
		if got := l.effects(); len(got) != 0 {
			l.Fatalf("got effects %v, want none", got)
		}
	})
}

func TestFlap(t *testing.T) {
	inLab(t, fake.Faults{Flap: fake.Duration(time.Minute)}, func(l *lab) {
		for range 3 {
			l.host(true, "PingOK")
			l.power(providers.PowerOn)
			pass(time.Minute)
			f := l.facts()
			want := providers.Facts{ReachableReason: "PingTimeout", BMCReason: "RedfishTimeout"}
			if diff := cmp.Diff(want, f); diff != "" {
				l.Fatal(diff)
			}
			_, err := l.p.PowerState(l.ctx, l.m)
			l.fails(err, providers.Transient)
			pass(time.Minute)
		}
	})
}

// TestFlapStartsWithTheMachine uses a new machine while others are already down.
func TestFlapStartsWithTheMachine(t *testing.T) {
	inLab(t, fake.Faults{Flap: fake.Duration(time.Minute)}, func(l *lab) {
		pass(time.Minute)
		l.host(true, "PingOK")
		pass(time.Minute)
		l.host(false, "PingTimeout")
		l.ok(l.fleet.SetFaults(fake.Faults{Flap: fake.Duration(time.Hour)}, nil)) // restarts the cycle
		l.host(true, "PingOK")
		pass(time.Hour)
		l.host(false, "PingTimeout")
	})
}

func TestAuth(t *testing.T) {
	inLab(t, fake.Faults{Auth: true}, func(l *lab) {
		_, err := l.p.PowerState(l.ctx, l.m)
		l.fails(err, providers.Auth)
		l.fails(l.p.SetPower(l.ctx, op("reboot"), l.m, providers.ActionOn), providers.Auth)
		_, err = l.p.BootDevice(l.ctx, l.m)
		l.fails(err, providers.Auth)
		if f := l.facts(); f.BMCReachable || f.BMCReason != "AuthFailed" || !f.Reachable {
			l.Fatalf("got %+v", f)
		}
		l.start("ssh", "true") // the host has credentials of its own
		if s, _ := l.fleet.State("m-1"); s.AuthFailures != 3 || s.Calls["power_state"] != 1 {
			l.Fatalf("got %+v, want 3 refusals counted", s)
		}
	})
}

func TestGone(t *testing.T) {
	inLab(t, fake.Faults{Gone: true}, func(l *lab) {
		_, err := l.p.Inspect(l.ctx, l.m)
		l.fails(err, providers.Gone)
		l.fails(l.p.SetPower(l.ctx, op("reboot"), l.m, providers.ActionOn), providers.Gone)
		_, err = l.p.CommandStatus(l.ctx, l.m, "t", 0)
		l.fails(err, providers.Gone)
	})
}

func TestOnlyFirst(t *testing.T) {
	inLab(t, fake.Faults{Fail: 1, OnlyFirst: 2}, func(l *lab) {
		for _, m := range []providers.Machine{machine("a"), machine("b")} {
			for i := range 4 {
				on := l.p.SetPower(l.ctx, op("reboot"), m, providers.ActionOn)
				net := l.p.ApplyNetwork(l.ctx, op("net"), m, "vlan: 7", time.Minute)
				if i < 2 {
					l.fails(on, providers.Transient)
					l.fails(net, providers.Transient)
					continue
				}
				l.ok(on)
				l.ok(net)
			}
		}
	})
}

// TestFaultsOfOneMachine changes faults while the fleet runs. Only changed machines restart the
// count of calls.
func TestFaultsOfOneMachine(t *testing.T) {
	inLab(t, fake.Faults{Fail: 1, OnlyFirst: 1}, func(l *lab) {
		press := func(id string) error { return l.p.SetPower(l.ctx, op("reboot"), machine(id), providers.ActionOn) }
		l.fails(press("a"), providers.Transient)
		l.fails(press("b"), providers.Transient)
		l.ok(press("a"))
		l.ok(l.fleet.SetFaults(fake.Faults{Fail: 1, OnlyFirst: 1}, map[string]fake.Faults{"b": {Gone: true}}))
		l.ok(press("a"))
		l.fails(press("b"), providers.Gone)
		l.ok(l.fleet.SetFaults(fake.Faults{Auth: true, OnlyFirst: 1}, map[string]fake.Faults{"b": {}}))
		l.fails(press("a"), providers.Auth)
		l.ok(press("a"))
		l.ok(press("b"))
		if err := l.fleet.SetFaults(fake.Faults{Fail: 2}, nil); err == nil {
			l.Fatal("faults that make no sense are accepted")
		}
		l.ok(press("b"))
	})
}

// TestFaultsAreDeterministic makes the same calls to fleets with equal and different seeds.
func TestFaultsAreDeterministic(t *testing.T) {
	decisions := func(seed uint64) string {
		p := fake.New(fake.NewFleet(fake.Config{Seed: seed, Faults: fake.Faults{Fail: 0.3}}))
		out := ""
		for i := range 400 {
			if p.SetPower(t.Context(), op("reboot"), machine(fmt.Sprint("m-", i%4)), providers.ActionOn) != nil {
				out += "x"
			} else {
				out += "."
			}
		}
		return out
	}
	first := decisions(1)
	if again := decisions(1); first != again {
		t.Fatalf("same seed: got\n%s\nand then\n%s", first, again)
	}
	if other := decisions(2); first == other {
		t.Fatal("different seeds: got the same results")
	}
	failed := 0
	for _, c := range first {
		if c == 'x' {
			failed++
		}
	}
	if failed < 80 || failed > 160 {
		t.Fatalf("got %d failures of 400, want about 120", failed)
	}
	if first[:4] == first[4:8] && first[4:8] == first[8:12] && first[8:12] == first[12:16] {
		t.Fatalf("got the same result for every call of a machine: %s", first)
	}
}

package fake_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

func TestEffects(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		start := time.Now().UTC()
		o := providers.Op{RunID: "r-9", Step: "restart", Attempt: 2, Epoch: 5}
		l.ok(l.p.SetPower(l.ctx, o, l.m, providers.ActionSoftOff))
		pass(powerTime)
		l.ok(l.p.SetPower(l.ctx, o, l.m, providers.ActionHardOff)) // is off already
		l.ok(l.p.InsertMedia(l.ctx, providers.Op{RunID: "r-8"}, machine("m-2"), "http://192.0.2.1/a.iso"))
		l.ok(l.p.EjectMedia(l.ctx, providers.Op{RunID: "r-8"}, machine("m-2")))
		for range 2 {
			l.ok(l.p.StartInstall(l.ctx, o, machine("m-2"), providers.InstallSpec{Image: "debian-12", Wipe: true}))
		}
		want := []fake.Effect{
			{Seq: 1, MachineID: "m-1", RunID: "r-9", Step: "restart", Attempt: 2, Epoch: 5, Effect: "power_off",
				Destructive: true, At: start, Detail: "soft-off"},
			{Seq: 2, MachineID: "m-1", RunID: "r-9", Step: "restart", Attempt: 2, Epoch: 5, Effect: "power_off",
				Destructive: true, At: start.Add(powerTime), Detail: "hard-off"},
			{Seq: 3, MachineID: "m-2", RunID: "r-8", Effect: "media_insert", At: start.Add(powerTime),
				Detail: "http://192.0.2.1/a.iso"},
			{Seq: 4, MachineID: "m-2", RunID: "r-8", Effect: "media_eject", At: start.Add(powerTime),
				Detail: "http://192.0.2.1/a.iso"},
			{Seq: 5, MachineID: "m-2", RunID: "r-9", Step: "restart", Attempt: 2, Epoch: 5, Effect: "install",
				Destructive: true, At: start.Add(powerTime), Detail: "debian-12"},
		}
		for _, c := range []struct {
			name, machine, run string
			after              int
			want               []fake.Effect
		}{
			{"all", "", "", 0, want},
			{"after", "", "", 3, want[3:]},
			{"after the last", "", "", 5, []fake.Effect{}},
			{"after any", "", "", 500, []fake.Effect{}},
			{"negative", "", "", -1, want},
			{"machine", "m-1", "", 0, want[:2]},
			{"run", "", "r-9", 1, []fake.Effect{want[1], want[4]}},
			{"both", "m-2", "r-9", 0, want[4:]},
			{"machine without effects", "m-3", "", 0, []fake.Effect{}},
		} {
			if diff := cmp.Diff(c.want, l.fleet.Effects(c.machine, c.run, c.after)); diff != "" {
				l.Errorf("%s: %s", c.name, diff)
			}
		}
	})
}

// TestIdempotentByToken starts all operations with tokens many times at once.
func TestIdempotentByToken(t *testing.T) {
	f := fake.NewFleet(fake.Config{})
	p, m := fake.New(f), machine("m-1")
	for name, start := range map[string]func() error{
		"join":    func() error { return p.StartJoin(t.Context(), op("join"), m, providers.JoinSpec{ClusterRef: "c"}) },
		"net":     func() error { return p.ApplyNetwork(t.Context(), op("net"), m, "x", time.Minute) },
		"command": func() error { return p.StartCommand(t.Context(), op("ssh"), m, "t", providers.Command{Path: "true"}) },
	} {
		before := len(f.Effects("", "", 0))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := start(); err != nil {
					t.Error(name, err)
				}
			})
		}
		wg.Wait()
		if n := len(f.Effects("", "", before)); n != 1 {
			t.Errorf("%s: got %d effects, want 1", name, n)
		}
	}
}

// TestOverlapsAreCounted presses two buttons of one BMC at once.
func TestOverlapsAreCounted(t *testing.T) {
	inLab(t, fake.Faults{Latency: fake.Duration(time.Second)}, func(l *lab) {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { l.press(providers.ActionOn) })
		}
		wg.Go(func() { l.power(providers.PowerOn) }) // reads do not overlap
		wg.Wait()
		l.press(providers.ActionOn)
		if s, _ := l.fleet.State("m-1"); s.Overlaps != 2 {
			l.Fatalf("got %d overlaps, want 2", s.Overlaps)
		}
	})
}

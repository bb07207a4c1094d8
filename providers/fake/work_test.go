package fake_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

func TestInstall(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		before := l.facts()
		l.start("old", "sleep 3600")
		l.join("prod")
		l.ok(l.p.StartInstall(l.ctx, op("i"), l.m, providers.InstallSpec{Image: "debian-12"}))
		l.host(false, "Installing")
		l.node("prod", providers.NodeStatus{Reason: "NodeNotFound"})
		var stages []string
		for range 10 {
			s := l.install("i", providers.WorkRunning)
			if len(stages) == 0 || stages[len(stages)-1] != s.Stage {
				stages = append(stages, s.Stage)
			}
			pass(installTime/10 - tick)
		}
		if diff := cmp.Diff([]string{"booting the installer", "wiping the disk", "writing the image", "booting the image"},
			stages); diff != "" {
			l.Fatal(diff)
		}
		pass(10 * tick)
		want := providers.InstallStatus{State: providers.WorkDone, Progress: 100, Stage: "done", Image: "debian-12"}
		if diff := cmp.Diff(want, l.install("i", providers.WorkDone)); diff != "" {
			l.Fatal(diff)
		}
		if f := l.facts(); !f.Reachable || f.Image != "debian-12" || f.BootID == before.BootID {
			l.Fatalf("got %+v after an install", f)
		}
		l.command("old", providers.WorkFailed)
	})
}

func TestInstallTurnsTheMachineOn(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		l.press(providers.ActionHardOff)
		pass(powerTime)
		l.ok(l.p.StartInstall(l.ctx, op("i"), l.m, providers.InstallSpec{Image: "debian-12"}))
		l.power(providers.PowerOn)
		pass(installTime)
		l.host(true, "PingOK")
		l.press(providers.ActionHardOff) // does not count as an earlier press
		pass(powerTime)
		l.power(providers.PowerOff)
	})
}

// TestInstallAndPressTogether installs a machine that is about to be turned on.
func TestInstallAndPressTogether(t *testing.T) {
	for name, spec := range map[string]providers.InstallSpec{"install": {Image: "debian-12"}, "wipe": {Wipe: true}} {
		t.Run(name, func(t *testing.T) {
			inLab(t, fake.Faults{}, func(l *lab) {
				l.press(providers.ActionHardOff)
				pass(powerTime)
				l.press(providers.ActionOn)
				pass(powerTime / 2)
				l.ok(l.p.StartInstall(l.ctx, op("i"), l.m, spec))
				pass(powerTime + bootTime)
				l.host(false, "Installing")
				pass(installTime)
				l.install("i", providers.WorkDone)
				l.power(providers.PowerOn)
			})
		})
	}
}

func TestInstallFails(t *testing.T) {
	for _, c := range []struct {
		name, image, why string
		spoil            func(l *lab)
	}{
		{"power lost", "debian-12", "power was lost", func(l *lab) { l.press(providers.ActionHardOff) }},
		{"superseded", "debian-12", "superseded by r-1-again-1", func(l *lab) {
			l.ok(l.p.StartInstall(l.ctx, op("again"), l.m, providers.InstallSpec{Wipe: true}))
		}},
		{"corrupt image", "debian-corrupt", `image "debian-corrupt": checksum does not match`, func(*lab) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inLab(t, fake.Faults{}, func(l *lab) {
				l.ok(l.p.StartInstall(l.ctx, op("i"), l.m, providers.InstallSpec{Image: c.image}))
				pass(installTime / 2)
				c.spoil(l)
				pass(installTime)
				if s := l.install("i", providers.WorkFailed); s.Error != c.why || s.Image != "" {
					l.Fatalf("got %+v, want error %q", s, c.why)
				}
				l.press(providers.ActionOn)
				pass(powerTime + bootTime)
				l.host(false, "NoOperatingSystem")
				l.ok(l.p.StartInstall(l.ctx, op("repair"), l.m, providers.InstallSpec{Image: "debian-12"}))
				pass(installTime)
				l.host(true, "PingOK")
			})
		})
	}
}

// TestWipeLeavesThePowerAlone wipes machines that are on and off.
func TestWipeLeavesThePowerAlone(t *testing.T) {
	for _, state := range []providers.PowerState{providers.PowerOn, providers.PowerOff} {
		t.Run(string(state), func(t *testing.T) {
			inLab(t, fake.Faults{}, func(l *lab) {
				if state == providers.PowerOff {
					l.press(providers.ActionHardOff)
					pass(powerTime)
				}
				l.ok(l.p.StartInstall(l.ctx, op("w"), l.m, providers.InstallSpec{Wipe: true}))
				l.power(providers.PowerOn)
				pass(installTime)
				l.install("w", providers.WorkDone)
				l.power(state)
				if s, _ := l.fleet.State("m-1"); s.Image != "" || s.Reachable {
					l.Fatalf("got %+v after a wipe", s)
				}
				last := l.fleet.Effects("", "", 0)
				if e := last[len(last)-1]; e.Effect != "wipe" || !e.Destructive {
					l.Fatalf("got %+v, want a destructive wipe", e)
				}
			})
		})
	}
}

func (l *lab) join(cluster string) {
	l.Helper()
	l.ok(l.p.StartJoin(l.ctx, op("join-"+cluster), l.m, providers.JoinSpec{ClusterRef: cluster}))
	pass(joinTime)
}

func (l *lab) joined(cluster string, want providers.WorkState, why string) {
	l.Helper()
	s, got, err := l.p.JoinStatus(l.ctx, l.m, op("join-"+cluster).Token())
	if err != nil || s != want || got != why {
		l.Fatalf("join is %q, %q, %v, want %q, %q", s, got, err, want, why)
	}
}

func (l *lab) node(cluster string, want providers.NodeStatus) {
	l.Helper()
	got, err := l.p.NodeStatus(l.ctx, l.m, cluster)
	l.ok(err)
	if diff := cmp.Diff(want, got); diff != "" {
		l.Fatal(diff)
	}
}

func TestJoin(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		l.join("unreachable")
		l.joined("unreachable", providers.WorkFailed, `API server of "unreachable" does not answer`)
		l.join("prod")
		l.joined("prod", providers.WorkDone, "")
		l.node("prod", providers.NodeStatus{Registered: true, Ready: true, Reason: "KubeletReady"})
		l.node("other", providers.NodeStatus{Reason: "NodeNotFound"})
		l.join("other")
		l.joined("other", providers.WorkFailed, `host is in cluster "prod" already`)
		again := op("join-again")
		l.ok(l.p.StartJoin(l.ctx, again, l.m, providers.JoinSpec{ClusterRef: "prod"}))
		if s, _, err := l.p.JoinStatus(l.ctx, l.m, again.Token()); err != nil || s != providers.WorkDone {
			l.Fatalf("joining again is %q, %v", s, err)
		}
		l.press(providers.ActionHardOff)
		pass(powerTime)
		l.node("prod", providers.NodeStatus{Registered: true, Reason: "NodeStatusUnknown"})
		l.fails(l.p.StartJoin(l.ctx, op("down"), l.m, providers.JoinSpec{ClusterRef: "prod"}), providers.Transient)
	})
}

func TestJoinDiesWithItsHost(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		l.ok(l.p.StartJoin(l.ctx, op("join-prod"), l.m, providers.JoinSpec{ClusterRef: "prod"}))
		l.press(providers.ActionHardOff)
		pass(powerTime)
		l.press(providers.ActionOn)
		pass(powerTime + bootTime)
		l.joined("prod", providers.WorkFailed, "host went down")
		l.node("prod", providers.NodeStatus{Reason: "NodeNotFound"})
	})
}

// TestJoinsTogether starts two joins: the host ends in one cluster.
func TestJoinsTogether(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		l.ok(l.p.StartJoin(l.ctx, op("join-a"), l.m, providers.JoinSpec{ClusterRef: "a"}))
		l.ok(l.p.StartJoin(l.ctx, op("join-b"), l.m, providers.JoinSpec{ClusterRef: "b"}))
		pass(joinTime)
		l.joined("a", providers.WorkDone, "")
		l.joined("b", providers.WorkFailed, `host is in cluster "a" already`)
	})
}

// TestOneMoment ends a join at the moment of a power-off: the earlier one happens first.
func TestOneMoment(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		l.ok(l.p.StartJoin(l.ctx, op("join-a"), l.m, providers.JoinSpec{ClusterRef: "a"}))
		pass(joinTime - powerTime)
		l.press(providers.ActionHardOff)
		pass(powerTime)
		l.node("a", providers.NodeStatus{Registered: true, Reason: "NodeStatusUnknown"})
	})
}

func TestNetwork(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		status := func(want providers.NetworkStatus) {
			l.Helper()
			if got, err := l.p.NetworkStatus(l.ctx, l.m); err != nil || got != want {
				l.Fatalf("got %+v, %v, want %+v", got, err, want)
			}
		}
		status(providers.NetworkStatus{})
		good, bad, final := op("good"), op("bad"), op("final")
		l.ok(l.p.ApplyNetwork(l.ctx, good, l.m, "vlan: 7", time.Minute))
		pass(time.Minute - tick)
		status(providers.NetworkStatus{Token: good.Token()})
		l.ok(l.p.ConfirmNetwork(l.ctx, good, l.m, good.Token()))
		pass(time.Minute)
		status(providers.NetworkStatus{Token: good.Token(), Confirmed: true})

		l.ok(l.p.ApplyNetwork(l.ctx, bad, l.m, "gateway: unreachable", time.Minute))
		l.host(false, "NetworkUnreachable")
		l.fails(l.p.ConfirmNetwork(l.ctx, bad, l.m, bad.Token()), providers.Transient)
		pass(time.Minute)
		l.host(true, "PingOK")
		status(providers.NetworkStatus{Token: bad.Token(), Reverted: true})
		l.fails(l.p.ConfirmNetwork(l.ctx, bad, l.m, bad.Token()), providers.Unsupported)

		l.ok(l.p.ApplyNetwork(l.ctx, final, l.m, "vlan: 8", 0))
		status(providers.NetworkStatus{Token: final.Token(), Confirmed: true})
		l.fails(l.p.ApplyNetwork(l.ctx, op("neg"), l.m, "vlan: 8", -1), providers.Unsupported)
		want := []string{"net_apply", "net_confirm", "net_apply", "net_apply"}
		if diff := cmp.Diff(want, l.effects()); diff != "" {
			l.Fatal(diff)
		}
	})
}

func TestConsoleShowsBoots(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		c, err := l.p.OpenConsole(l.ctx, l.m)
		l.ok(err)
		l.press(providers.ActionHardOff)
		pass(powerTime)
		l.press(providers.ActionOn)
		pass(powerTime + bootTime)
		_, err = c.Write([]byte("root\n"))
		l.ok(err)
		var all strings.Builder
		for !strings.HasSuffix(all.String(), "login: root\nm-1 login: ") {
			b := make([]byte, 7)
			n, err := c.Read(b)
			l.ok(err)
			all.Write(b[:n])
		}
		for _, want := range []string{"m-1 factory boot ", "[power off]", "POST: memory OK"} {
			if !strings.Contains(all.String(), want) {
				l.Fatalf("console shows %q, want %q in it", all.String(), want)
			}
		}
		l.ok(c.Close())
		if _, err := c.Write([]byte("x")); err == nil {
			l.Fatal("a closed console takes input")
		}
	})
}

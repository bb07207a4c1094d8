package fake_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

const tick = time.Millisecond // just before or after something happens

func TestAMachineAppears(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		f := l.facts()
		if f.BootID == "" {
			l.Fatal("no boot id")
		}
		want := providers.Facts{Reachable: true, ReachableReason: "PingOK", BMCReachable: true, BMCReason: "RedfishOK",
			Power: providers.PowerOn, BootID: f.BootID, Image: "factory"}
		if diff := cmp.Diff(want, f); diff != "" {
			l.Fatal(diff)
		}
		l.power(providers.PowerOn)
		if d, err := l.p.BootDevice(l.ctx, l.m); err != nil || d.Mode != "DISK" {
			l.Fatalf("boot device is %+v, %v", d, err)
		}
	})
}

func TestPowerChangesAfterDelay(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		before := l.facts()
		l.press(providers.ActionHardOff)
		pass(powerTime - tick)
		l.power(providers.PowerOn)
		l.host(true, "PingOK")
		pass(tick)
		l.power(providers.PowerOff)
		l.host(false, "PoweredOff")
		l.press(providers.ActionOn)
		pass(powerTime - tick)
		l.power(providers.PowerOff)
		pass(tick)
		l.power(providers.PowerOn)
		l.host(false, "Booting")
		if id := l.facts().BootID; id != "" {
			l.Fatalf("boot id of a host that does not answer is %q", id)
		}
		pass(bootTime - tick)
		l.host(false, "Booting")
		pass(tick)
		l.host(true, "PingOK")
		if after := l.facts(); after.BootID == before.BootID || after.Image != before.Image {
			l.Fatalf("got %+v after a reboot, %+v before", after, before)
		}
	})
}

// TestPressesQueue presses faster than power changes. Every change takes its time, in order.
func TestPressesQueue(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		l.press(providers.ActionHardOff)
		l.press(providers.ActionOn)
		pass(powerTime)
		l.power(providers.PowerOff)
		pass(powerTime)
		l.power(providers.PowerOn)
		pass(bootTime / 2)
		l.press(providers.ActionHardOff) // while it boots
		pass(powerTime)
		l.host(false, "PoweredOff")
		pass(bootTime)
		l.host(false, "PoweredOff")
		if got, want := l.effects(), []string{"power_off", "power_on", "power_off"}; !cmp.Equal(got, want) {
			l.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestSoftOffAsksTheHost(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		l.press(providers.ActionSoftOff)
		pass(powerTime)
		l.power(providers.PowerOff)
		l.press(providers.ActionOn)
		pass(powerTime)
		l.press(providers.ActionSoftOff) // the operating system is not up yet
		pass(bootTime)
		l.power(providers.PowerOn)
		l.host(true, "PingOK")
	})
}

func TestBootDeviceOnceIsForOneBoot(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		mode := func(want string, persistent bool) {
			l.Helper()
			if d, err := l.p.BootDevice(l.ctx, l.m); err != nil || d.Mode != want || d.Persistent != persistent {
				l.Fatalf("boot device is %+v, %v, want %s, persistent %v", d, err, want, persistent)
			}
		}
		l.ok(l.p.SetBootDevice(l.ctx, op("n"), l.m, providers.BootDevice{Mode: "PXE"}))
		l.ok(l.p.SetBootDevice(l.ctx, op("n"), l.m, providers.BootDevice{Mode: "HTTP", Persistent: true}))
		mode("HTTP", true)
		l.ok(l.p.SetBootDevice(l.ctx, op("n"), l.m, providers.BootDevice{Mode: "PXE", UEFI: true}))
		mode("PXE", false)
		l.press(providers.ActionHardOff)
		pass(powerTime)
		mode("PXE", false)
		l.press(providers.ActionOn)
		pass(powerTime)
		mode("HTTP", true)
	})
}

func TestRebootKillsCommands(t *testing.T) {
	for name, end := range map[string]func(l *lab){
		"power off":      func(l *lab) { l.press(providers.ActionHardOff) },
		"reboot in band": func(l *lab) { l.start("reboot", "sleep 1; systemctl reboot") },
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, fake.Faults{}, func(l *lab) {
				l.start("short", "echo short")
				l.start("long", "echo one; sleep 60; echo two")
				pass(commandTime)
				end(l)
				pass(powerTime)
				if _, err := l.p.CommandStatus(l.ctx, l.m, "long", 0); providers.ClassOf(err) != providers.Transient ||
					!strings.Contains(err.Error(), "host does not answer") {
					l.Fatalf("got %v from a host that is down", err)
				}
				l.fails(l.p.StartCommand(l.ctx, op("ssh"), l.m, "late", providers.Command{Path: "true"}), providers.Transient)
				l.press(providers.ActionOn)
				pass(powerTime + bootTime)
				s := l.command("long", providers.WorkFailed)
				if len(s.Output) != 1 || string(s.Output[0].Data) != "one\n" {
					l.Fatalf("got %+v, want what it printed before it was killed", s)
				}
				l.command("short", providers.WorkDone)
				l.command("late", providers.WorkNone)
			})
		})
	}
}

func TestInBandPower(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		before := l.facts()
		l.start("reboot", "sudo systemctl reboot")
		pass(commandTime)
		l.power(providers.PowerOn)
		l.host(false, "Booting")
		pass(bootTime)
		l.host(true, "PingOK")
		if l.facts().BootID == before.BootID {
			l.Fatal("boot id did not change")
		}
		if s := l.command("reboot", providers.WorkDone); s.ExitCode != 0 {
			l.Fatalf("got %+v", s)
		}
		l.start("off", "shutdown -h now")
		pass(commandTime)
		l.power(providers.PowerOff)
		l.press(providers.ActionOn)
		pass(powerTime + bootTime)
		l.host(true, "PingOK")
		l.start("killed", "sleep 5; reboot")
		l.ok(l.p.KillCommand(l.ctx, op("ssh"), l.m, "killed"))
		pass(time.Minute)
		l.host(true, "PingOK")
		want := []string{"command", "reboot", "command", "poweroff", "power_on", "command", "reboot", "kill"}
		if diff := cmp.Diff(want, l.effects()); diff != "" {
			l.Fatal(diff)
		}
	})
}

// TestRebootOfAMachineThatIsOff turns the power off at the moment of a reboot command.
func TestRebootOfAMachineThatIsOff(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		l.press(providers.ActionHardOff)
		pass(powerTime - commandTime)
		l.start("reboot", "reboot")
		pass(commandTime + bootTime)
		l.power(providers.PowerOff)
		l.host(false, "PoweredOff")
	})
}

//go:build linux

package bmc_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/providertest"
)

// powerOnly and powerAndBoot are a provider with the capabilities that the BMC is tested with, and
// a host that answers.
type (
	powerOnly struct {
		providers.Provider
		providers.PowerController
		providers.Settler
		providers.Inspector
	}
	powerAndBoot struct {
		powerOnly
		providers.BootController
	}
	powerAndConsole struct {
		powerOnly
		providers.Console
	}
)

func (l *ipmiLab) setup(p providers.Provider) providertest.Setup {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = silent.Close() })
	missing := machine("missing", l.m.GetSpec().GetBmcEndpoint()) // it refuses this cipher suite
	missing.Labels = map[string]string{bmc.CipherLabel: "17"}
	return providertest.Setup{Provider: p, Machine: l.m, Wait: 30 * time.Second, Poll: 10 * time.Millisecond,
		Silent: machine("silent", "ipmi://"+silent.LocalAddr().String()), Missing: missing}
}

func TestConformanceOverIPMISim(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, ipmiSim)
	s := l.setup(powerAndConsole{powerOnly{l.p, l.p, l.p, l}, l.p})
	providertest.Run(t, func(*testing.T) providertest.Setup { return s })
}

func TestConformanceOverPyghmi(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, pyghmi)
	s := l.setup(powerAndBoot{powerOnly{l.p, l.p, l.p, l}, l.p})
	providertest.Run(t, func(*testing.T) providertest.Setup { return s })
}

func TestBootDeviceOverIPMI(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, pyghmi)
	for _, c := range []struct {
		set  providers.BootDevice
		want string
	}{
		{providers.BootDevice{Mode: "PXE"}, "boot 8004"},
		{providers.BootDevice{Mode: "DISK", Persistent: true}, "boot c008"},
		{providers.BootDevice{Mode: "PXE", UEFI: true}, "boot a004"},
		{providers.BootDevice{Mode: "VIRTUAL_MEDIA", Persistent: true, UEFI: true}, "boot e014"},
	} {
		l.ok(c.want, l.p.SetBootDevice(l.ctx, op("netboot"), l.m, c.set))
		got, err := l.p.BootDevice(l.ctx, l.m)
		l.ok("read", err)
		if all := l.done(); got != c.set || all[len(all)-1] != c.want {
			t.Errorf("boot device: got %+v by %s, want %+v by %s", got, all[len(all)-1], c.set, c.want)
		}
	}
	l.class("HTTP", l.p.SetBootDevice(l.ctx, op("netboot"), l.m, providers.BootDevice{Mode: "HTTP"}),
		providers.Unsupported)
}

// The quirk table has the flags that ipmi_sim drops, so only the device counts.
func TestBootDeviceOfIPMISim(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, ipmiSim)
	l.ok("set", l.p.SetBootDevice(l.ctx, op("netboot"), l.m, providers.BootDevice{Mode: "PXE", UEFI: true}))
	if got := l.file("boot"); got != "pxe" {
		t.Errorf("boot device of the machine: got %s, want pxe", got)
	}
	got, err := l.p.BootDevice(l.ctx, l.m)
	l.ok("read", err)
	if got.Mode != "PXE" {
		t.Errorf("boot device: got %+v, want PXE", got)
	}
}

// Each press is one command, without others.
func TestEachPressIsOneIPMICommand(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, ipmiSim)
	for _, a := range []providers.PowerAction{providers.ActionHardOff, providers.ActionHardOff, providers.ActionOn,
		providers.ActionSoftOff} {
		l.ok(string(a), l.p.SetPower(l.ctx, op("power"), l.m, a))
	}
	if diff := cmp.Diff([]string{"power 0", "power 0", "power 1", "shutdown 1"}, l.done()); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

func TestRefusedIPMILogins(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, ipmiSim)
	l.acct.set(bmc.Account{User: "admin", Password: "wrong"})
	for range 5 {
		_, err := l.p.PowerState(l.ctx, l.m)
		l.class("wrong password", err, providers.Auth)
	}
	before := l.acct.asked
	err := l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionHardOff)
	l.class("wrong password", err, providers.Auth)
	if !strings.Contains(err.Error(), "not tried") || l.acct.asked != before+1 {
		t.Errorf("got %v, want a refusal without a try", err)
	}
	l.acct.set(bmc.Account{User: "admin", Password: "secret"})
	l.power(providers.PowerOn)
	if got := l.done(); got != nil {
		t.Errorf("got effects %v, want none", got)
	}
}

func TestUnsupportedCipherSuite(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, ipmiSim)
	l.m.Labels[bmc.CipherLabel] = "17"
	_, err := l.p.PowerState(l.ctx, l.m)
	l.class("suite 17", err, providers.Unsupported)
	if !strings.Contains(err.Error(), bmc.CipherLabel) {
		t.Errorf("error: got %v, want a remedy", err)
	}
}

// A command is killed at its deadline, and no process remains.
func TestIPMICommandsEndOnTime(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, ipmiSim)
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	p := l.provider(func(c *bmc.Config) { c.CommandTime = 200 * time.Millisecond })
	began := time.Now()
	err = p.SetPower(l.ctx, op("power"), machine("silent", "ipmi://"+silent.LocalAddr().String()), providers.ActionHardOff)
	l.class("off", err, providers.Timeout)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v, want about 200ms", took)
	}
	if s := p.Settle(l.m); s != 200*time.Millisecond+200*time.Millisecond {
		t.Errorf("settle time: got %v, want it longer by the time of a command", s)
	}
}

func TestGapBetweenIPMICommands(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, ipmiSim)
	p := l.provider(func(c *bmc.Config) { c.IPMIGap = 300 * time.Millisecond })
	began := time.Now()
	for range 3 { // and one that reads the maker
		_, err := p.PowerState(l.ctx, l.m)
		l.ok("read", err)
	}
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("four commands took %v, want at least 900ms", took)
	}
	ctx, cancel := context.WithTimeout(l.ctx, 50*time.Millisecond)
	defer cancel()
	_, err := p.PowerState(ctx, l.m)
	l.class("no time to wait for the gap", err, providers.Timeout)
}

// A press that must wait for the gap is late, and the next try succeeds: executors allow half a
// second for a press, and read the BMC right before.
func TestPressAfterGapSucceeds(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, ipmiSim)
	p := l.provider(func(c *bmc.Config) { c.IPMIGap = 2 * time.Second })
	_, err := p.PowerState(l.ctx, l.m)
	l.ok("read", err)
	began := time.Now()
	for {
		err := p.SetPower(providers.WithNotAfter(l.ctx, time.Now().Add(500*time.Millisecond)), op("power"), l.m,
			providers.ActionHardOff)
		if err == nil {
			break
		}
		l.class("press", err, providers.Late)
		if time.Since(began) > 20*time.Second {
			t.Fatal("press: late in every try")
		}
	}
	if diff := cmp.Diff([]string{"power 0"}, l.done()); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// The gap counts from the end of a command, however long that takes, so that commands do not
// overlap.
func TestGapAfterSlowCommand(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, ipmiSim)
	slow := filepath.Join(t.TempDir(), "ipmitool")
	log := slow + ".log"
	script := "#!/bin/sh\necho begin >>" + log + "\nsleep 0.4\nipmitool \"$@\"\nr=$?\necho end >>" + log + "\nexit $r\n"
	if err := os.WriteFile(slow, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	p := l.provider(func(c *bmc.Config) { c.IPMIGap, c.Ipmitool = 100*time.Millisecond, slow })
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			var err error
			if i%2 == 0 {
				err = p.SetPower(l.ctx, op("power"), l.m, providers.ActionOn)
			} else {
				_, err = p.PowerState(l.ctx, l.m)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	b, err := os.ReadFile(log)
	l.ok("read the log", err)
	if strings.Contains(string(b), "begin\nbegin\n") || strings.Count(string(b), "end\n") < 5 {
		t.Errorf("got overlapping commands:\n%s", b)
	}
}

func TestIPMIInventoryEventsAndCare(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, pyghmi)
	v, err := l.p.Inventory(l.ctx, l.m)
	l.ok("inventory", err)
	if len(v.Missing) == 0 || len(v.Unread) == 0 {
		t.Errorf("inventory: got %+v, want the missing parts listed", v)
	}
	l.class("virtual media", l.p.InsertMedia(l.ctx, op("media"), l.m, "http://192.0.2.1/x.iso"), providers.Unsupported)
	l.ok("reset the BMC", l.p.ResetBMC(l.ctx, op("recover"), l.m))
	// ipmitool does not wait for the answer to a cold reset, so the simulator may handle it after
	// ResetBMC has returned.
	for end := time.Now().Add(10 * time.Second); len(l.done()) == 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond) // sleep: between two reads of the simulator's log
	}
	if diff := cmp.Diff([]string{"mc reset"}, l.done()); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	sim := newIPMILab(t, ipmiSim)
	all, err := sim.p.Events(sim.ctx, sim.m, "")
	sim.ok("events", err)
	if len(all) != 0 {
		t.Errorf("got events %+v, want none", all)
	}
}

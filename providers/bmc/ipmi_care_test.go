//go:build linux

package bmc_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
)

// ipmi_sim has a light whose state cannot be read, an event log, and no sensors.
func TestCareOfIPMISim(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, ipmiSim)
	for _, on := range []bool{true, false} {
		l.ok("switch the light", l.p.Identify(l.ctx, op("identify"), l.m, on))
		got, err := l.p.Light(l.ctx, l.m)
		l.ok("read the light", err)
		if got != providers.LightUnknown {
			t.Errorf("light: got %s, want unknown, because this BMC does not report it", got)
		}
	}

	if diff := cmp.Diff([]string{"identify 0 1", "identify 0 0"}, l.done()); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}

	// An uncorrectable memory error (IPMI 2.0 table 42-3, sensor type 0Ch, offset 1), like one of a
	// machine's firmware.
	_, port, _ := strings.Cut(strings.TrimPrefix(l.m.GetSpec().GetBmcEndpoint(), "ipmi://"), ":")
	login := []string{"-I", "lanplus", "-C", "3", "-H", "127.0.0.1", "-p", port, "-U", "admin", "-P", "secret"}
	for _, command := range []string{"sel time set now",
		"raw 0x0a 0x44 0 0 2 0 0 0 0 0x20 0 4 0x0c 0x30 0x6f 0xa1 0xff 0xff"} {
		if out, err := exec.CommandContext(t.Context(), "ipmitool",
			append(login, strings.Fields(command)...)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	events, err := l.p.Events(l.ctx, l.m, "")
	l.ok("read the event log", err)
	if len(events) != 1 || time.Since(events[0].At).Abs() > 25*time.Hour {
		t.Errorf("got events %+v, want the added one of today", events)
	}
	health, err := l.p.Health(l.ctx, l.m)
	l.ok("read the health", err)
	want := []providers.Problem{{Kind: providers.EventLogged, Text: "the event log says: Memory #0x30: Uncorrectable ECC"}}
	if diff := cmp.Diff(providers.Health{Problems: want}, health); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
	l.ok("clear the event log", l.p.ClearEvents(l.ctx, op("clear"), l.m, ""))
	l.eventually("an empty event log", func() bool {
		events, err := l.p.Events(l.ctx, l.m, "")
		return err == nil && len(events) == 0
	})
}

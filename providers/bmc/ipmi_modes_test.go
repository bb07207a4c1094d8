//go:build linux

package bmc_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/providertest"
)

// persistentIPMI is a provider over IPMI whose changes are repeated while they fail for now.
type persistentIPMI struct {
	providers.Provider
	providers.PowerController
	providers.BootController
	providers.Settler
	providers.Identifier
	providers.EventLog
	providers.InventoryReader
	providers.HealthReader
}

func (p persistentIPMI) PowerState(ctx context.Context, m providers.Machine) (providers.PowerState, error) {
	return again2(func() (providers.PowerState, error) { return p.PowerController.PowerState(ctx, m) })
}

func (p persistentIPMI) SetPower(
	ctx context.Context, op providers.Op, m providers.Machine, a providers.PowerAction,
) error {
	return again(func() error { return p.PowerController.SetPower(ctx, op, m, a) })
}

func (p persistentIPMI) SetBootDevice(
	ctx context.Context, op providers.Op, m providers.Machine, b providers.BootDevice,
) error {
	return again(func() error { return p.BootController.SetBootDevice(ctx, op, m, b) })
}

func (p persistentIPMI) Identify(ctx context.Context, op providers.Op, m providers.Machine, on bool) error {
	return again(func() error { return p.Identifier.Identify(ctx, op, m, on) })
}

func (p persistentIPMI) ClearEvents(ctx context.Context, op providers.Op, m providers.Machine, log string) error {
	return again(func() error { return p.EventLog.ClearEvents(ctx, op, m, log) })
}

func (p persistentIPMI) Inventory(ctx context.Context, m providers.Machine) (*providers.Inventory, error) {
	return again2(func() (*providers.Inventory, error) { return p.InventoryReader.Inventory(ctx, m) })
}

func (p persistentIPMI) Health(ctx context.Context, m providers.Machine) (providers.Health, error) {
	return again2(func() (providers.Health, error) { return p.HealthReader.Health(ctx, m) })
}

// patient bounds what only a busy computer makes slow. Each command starts about ten processes, and
// an operation several commands. A command that is killed counts as unanswered, and a press that
// became late is not repeated, so a bound that is too short fails the test.
const patient = 5 * time.Minute

// oddIPMI is a machine behind an ipmitool that answers as the lines of odd say (ipmibmc.sh).
func oddIPMI(t *testing.T, odd ...string) (*lab, string) {
	t.Helper()
	dir := t.TempDir()
	script, err := filepath.Abs("testdata/ipmibmc.sh")
	if err != nil {
		t.Fatal(err)
	}
	tool := filepath.Join(dir, "ipmitool")
	if err := os.Symlink(script, tool); err != nil {
		t.Fatal(err)
	}
	lines := ""
	if len(odd) > 0 {
		lines = strings.Join(odd, "\n") + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "odd"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, acct: &accounts{is: bmc.Account{User: "admin", Password: "secret"}}, mem: bmc.NewInMemory(),
		ctx: t.Context(), m: machine("m-1", "ipmi://127.0.0.1")}
	l.p = l.provider(func(c *bmc.Config) {
		c.Ipmitool, c.OpenTime, c.CommandTime, c.Timeout = tool, 10*time.Millisecond, patient, 2*patient
	})
	return l, dir
}

// TestConformanceOverOddIPMI runs the conformance suite against BMCs that refuse commands for now,
// or lack some, or report states behind readings.
func TestConformanceOverOddIPMI(t *testing.T) {
	t.Parallel()
	refused := func(code string) []string {
		var all []string
		for _, command := range []string{
			"mc info", "power status", "power on", "power off", "power soft", "bootdev", "identify", "sel clear",
			"fru print", "sdr elist",
		} {
			all = append(all, command+"|Chassis command failed: "+code+"\\n|1")
		}
		return all
	}
	const noSession = "Error in open session response message : insufficient resources for session\\n" +
		"Error: Unable to establish IPMI v2 / RMCP+ session\\n"
	for name, odd := range map[string][]string{
		"as specified":          nil,
		"C0h once":              refused("Node busy"),
		"C3h once":              refused("Timeout"),
		"CEh once":              refused("Command response could not be provided"),
		"D2h once":              refused("BMC initialization in progress"),
		"D5h once":              refused("Command not supported in present state"),
		"no free session, once": {"mc info|" + noSession + "|1", "power off|" + noSession + "|1"},
		"CBh for the names":     {"always fru print|Device not present (Requested sensor, data, or record not found)\\n|1"},
		"D4h for the flags":     {"always raw 0x00 0x08|Raw failed: Insufficient privilege level\\n|1"},
		"C1h for the flags":     {"always raw 0x00 0x08|Unable to send RAW command (rsp=0xc1): Invalid command\\n|1"},
		"states behind readings": {
			"always sdr elist|PSU \\174 06h \\174 ok \\174 10.1 \\174 90 Watts, Presence detected\\n|0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, func(t *testing.T) providertest.Setup {
				l, _ := oddIPMI(t, odd...)
				p := persistentIPMI{l.p, l.p, l.p, l.p, l.p, l.p, l.p, l.p}
				if _, err := p.PowerState(l.ctx, l.m); err != nil {
					t.Fatalf("first reading: %v", err)
				}
				return providertest.Setup{
					Provider: p, Machine: l.m,
					Wait: patient, Poll: 10 * time.Millisecond, ClearLog: true,
				}
			})
		})
	}
}

// TestHealthOfOddIPMI checks the problems that states of sensors are.
func TestHealthOfOddIPMI(t *testing.T) {
	t.Parallel()
	l, dir := oddIPMI(t)
	sensors := "PSU A | 06h | ok | 10.1 | 0 Watts, Presence detected, Power Supply AC lost\n" +
		"Unit | 07h | ok | 21.1 | Power off/down, AC lost\n" +
		"Fans | 08h | ok | 29.1 | Redundancy Degraded\nPower | 09h | ok | 21.2 | Non-Redundant: Sufficient from Redundant\n"
	if err := os.WriteFile(filepath.Join(dir, "sensors"), []byte(sensors), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := l.p.Health(l.ctx, l.m)
	l.ok("read the health", err)
	want := []providers.Problem{{Kind: providers.PowerSupply, Text: "PSU A lost input"}}
	if diff := cmp.Diff(want, h.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

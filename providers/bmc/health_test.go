package bmc_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

func TestHealthOverRedfish(t *testing.T) {
	for name, tt := range map[string]struct {
		maker  string
		broken []redfishtest.Part
		log    []string // severity, message
		want   []providers.Problem
	}{
		"all is well": {},
		"a disk": {broken: []redfishtest.Part{redfishtest.Disk1},
			want: []providers.Problem{{Kind: providers.DiskFailed, Text: "disk 1 failed"}}},
		"a power supply": {broken: []redfishtest.Part{redfishtest.PSU1},
			want: []providers.Problem{{Kind: providers.PowerSupply, Text: "PSU 1 lost input"}}},
		"too hot": {broken: []redfishtest.Part{redfishtest.CPU1Temp},
			want: []providers.Problem{{Kind: providers.Thermal, Text: "CPU1 94 C over 90 C"}}},
		"several, in order": {broken: []redfishtest.Part{redfishtest.Fan1, redfishtest.PSU1,
			redfishtest.Disk1}, want: []providers.Problem{{Kind: providers.DiskFailed, Text: "disk 1 failed"},
			{Kind: providers.PowerSupply, Text: "PSU 1 lost input"}, {Kind: providers.Thermal, Text: "Fan 1 failed"}}},
		"nobody knows what": {broken: []redfishtest.Part{redfishtest.Rollup},
			want: []providers.Problem{{Kind: providers.HealthUnnamed,
				Text: "the BMC reports Critical for the system, without naming a part"}}},
		"a roll-up that follows the log": {maker: "Dell Inc.", broken: []redfishtest.Part{redfishtest.Rollup}},
		"State and Health mixed up":      {broken: []redfishtest.Part{redfishtest.Mixed}},
		"the event log": {log: []string{"Critical", "Memory: uncorrectable error in DIMM A1"},
			want: []providers.Problem{{Kind: providers.EventLogged,
				Text: "the event log says: Memory: uncorrectable error in DIMM A1"}}},
		"a warning in the log": {log: []string{"Warning", "The door is open"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, redfishtest.Config{Manufacturer: tt.maker}, func(c *bmc.Config) { c.Protocol = bmc.Redfish })
			l.s.Healthy()
			for _, p := range tt.broken {
				l.s.Break(p)
			}
			if tt.log != nil {
				l.s.Log("1", tt.log[0], tt.log[1])
			}
			got, err := l.p.Health(l.ctx, l.m)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if len(got.Unread) > 0 {
				t.Errorf("not read: %q", got.Unread)
			}
			if reads, writes := l.s.Most(); reads > 1 || writes > 1 {
				t.Errorf("%d reads and %d writes at once: a look at the health makes one request at a time", reads, writes)
			}
		})
	}
}

// A drive that is about to fail, and a DIMM with a warning, show in no roll-up.
func TestPredictedFailuresAreProblems(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, func(c *bmc.Config) { c.Protocol = bmc.Redfish })
	got, err := l.p.Health(l.ctx, l.m)
	if err != nil {
		t.Fatal(err)
	}
	want := []providers.Problem{{Kind: providers.DiskFailed, Text: "disk 2 is predicted to fail"},
		{Kind: providers.MemoryFailed, Text: "DIMM A3 is degraded"}}
	if diff := cmp.Diff(want, got.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// What ipmitool 1.8.19 prints for `sdr elist all`.
const sdr = `CPU1             | 01h | ok  |  3.1 | 54 degrees C
CPU2             | 02h | cr  |  3.2 | 94 degrees C
Inlet Temp       | 05h | ns  | 55.1 | No Reading
Fan3             | 30h | cr  | 29.3 | 0 RPM
PS1 Status       | C8h | ok  | 10.1 | Presence detected, Failure detected, Power Supply AC lost
PS2 Status       | C9h | ok  | 10.2 | Presence detected
Drive 4          | F4h | ok  | 26.4 | Drive Present, Drive Fault
Drive 5          | F5h | ok  | 26.5 | Drive Present
12V              | 60h | nc  |  7.1 | 11.20 Volts
`

func TestSensorsOverIPMI(t *testing.T) {
	want := []providers.Problem{{Kind: providers.DiskFailed, Text: "Drive 4 failed"},
		{Kind: providers.PowerSupply, Text: "PS1 Status lost input"},
		{Kind: providers.Thermal, Text: "CPU2 is critical at 94 C"}, {Kind: providers.Thermal,
			Text: "Fan3 is critical at 0 RPM"}, {Kind: providers.VoltageWrong, Text: "12V is out of its range at 11.20 Volts"}}
	if diff := cmp.Diff(want, bmc.Sensors(sdr)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	for name, tt := range map[string]struct{ line, sensor, want string }{
		"over": {"CPU2 | 02h | cr | 3.2 | 94 degrees C",
			"Sensor Reading : 94 (+/- 0) degrees C\n Upper Non-Recoverable : 100.000\n Upper Critical : 90.000\n Upper " +
				"Non-Critical : 85.000\n", "CPU2 94 C over 90 C"},
		"under": {"Fan3 | 30h | cr | 29.3 | 300 RPM", "Upper Critical : na\n Lower Critical : 600.000\n",
			"Fan3 300 RPM under 600 RPM"},
		"without threshold": {"CPU2 | 02h | cr | 3.2 | 94 degrees C", "Upper Critical : na\n", "CPU2 is critical at 94 C"},
	} {
		if got := bmc.Over(tt.line, tt.sensor); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestEventLogOverIPMI(t *testing.T) {
	now := time.Date(2026, 1, 29, 18, 0, 0, 0, time.UTC)
	log := `   1 | 01/20/2026 | 10:00:00 | Temperature CPU1 | Upper Critical going high | Asserted
   2 | 01/29/2026 | 15:00:00 | Temperature CPU2 | Upper Critical going high | Asserted
   3 | 01/29/2026 | 15:05:00 | Temperature CPU2 | Upper Critical going high | Deasserted
   4 | 01/29/2026 | 16:00:00 | Power Supply PS1 Status | Power Supply AC lost | Asserted
   5 | 01/29/2026 | 16:01:00 | Temperature Inlet | Upper Non-critical going high | Asserted
   6 | 01/29/2026 | 16:02:00 | Memory ECC | Uncorrectable ECC | Asserted
   7 | Pre-Init  |0000000009| Memory ECC | Uncorrectable ECC | Asserted
`
	want := []string{"the event log says: Memory ECC: Uncorrectable ECC",
		"the event log says: Power Supply PS1 Status: Power Supply AC lost"}
	var got []string
	for _, p := range bmc.Logged(log, now) {
		got = append(got, p.Text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

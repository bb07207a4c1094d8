package ipmi

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
)

// The output of ipmitool 1.8.19 for `sdr elist all`.
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
	if diff := cmp.Diff(want, sensors(sdr)); diff != "" {
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
		if got := over(tt.line, tt.sensor); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// HPE has states behind a reading, and other states are no faults.
func TestStatesOfSensors(t *testing.T) {
	for line, want := range map[string]string{
		"PSU A | 06h | ok | 10.1 | 0 Watts, Presence detected, Failure detected":             "PSU A failed",
		"PSU B | 06h | ok | 10.2 | 90 Watts, Presence detected":                              "",
		"Fans | 06h | ok | 29.1 | 21.56 percent, Redundancy Lost":                            "Fans lost redundancy",
		"Fan 1 | 06h | ok | 29.2 | 21.56 percent, Device Enabled":                            "",
		"Bay 3 | 06h | ok | 4.3 | Predictive Failure Deasserted":                             "",
		"Bay 4 | 06h | ok | 4.4 | Drive Present, Predictive Failure Asserted":                "Bay 4 is predicted to fail",
		"Power | 06h | ok | 21.1 | Non-Redundant: Sufficient from Redundant":                 "",
		"Power | 06h | ok | 21.1 | Redundancy Degraded":                                      "",
		"Unit | 06h | ok | 21.1 | Power off/down, AC lost":                                   "",
		"PSU G | 06h | ok | 10.7 | Presence detected, Power Supply AC lost":                  "PSU G lost input",
		"PSU H | 06h | ok | 10.8 | AC lost or out-of-range":                                  "PSU H lost input",
		"Unit | 06h | ok | 21.1 | Failure detected":                                          "Unit failed",
		"Unit | 06h | ok | 21.1 | Power off/down":                                            "",
		"Power | 06h | ok | 21.1 | Fully Redundant":                                          "",
		"Power | 06h | ok | 21.1 | Non-Redundant: Sufficient from Insufficient":              "",
		"Unit | 06h | ok | 21.1 | Power cycle, Interlock power down":                         "",
		"Power | 06h | ok | 21.1 | Redundancy Degraded from Non-Redundant":                   "",
		"Power | 06h | ok | 21.1 | Redundancy Degraded from Fully Redundant":                 "",
		"Power | 06h | ok | 21.1 | Non-Redundant:Insufficient Resources":                     "Power lost redundancy",
		"D | 06h | ok | 10.4 | AC out-of-range, but present":                                 "D has input out of its range",
		"PSU E | 06h | ok | 10.5 | Presence detected, Power Supply Inactive":                 "",
		"PSU F | 06h | ok | 10.6 | Config Error: Vendor Mismatch":                            "PSU F is configured wrong",
		"CPU 1 | 06h | ok | 3.1 | Presence detected, Throttled, Disabled":                    "",
		"CPU 2 | 06h | ok | 3.2 | Presence detected, IERR, Thermal Trip":                     "CPU 2 has an internal error",
		"Carrier | 06h | ok | 7.1 | Tierrack removed":                                        "",
		"DIMM A | 06h | ok | 32.1 | Presence Detected, Correctable ECC":                      "",
		"B | 06h | ok | 32.2 | Correctable ECC logging limit reached":                        "B has many corrected errors",
		"C | 06h | ok | 32.4 | Uncorrectable ECC @DIMMD(CPU1)":                               "C has an uncorrectable error",
		"Bay 5 | 06h | ok | 4.5 | Parity Check In Progress, Hot Spare":                       "",
		"Bay 6 | 06h | ok | 4.6 | Drive Present, Rebuild In Progress":                        "",
		"VBAT | 06h | ok | 40.1 | Low":                                                       "VBAT is low",
		"VBAT | 06h | ok | 40.1 | Lower Critical going low":                                  "VBAT is critical",
		"VBAT | 06h | ok | 40.1 | Lower Critical going high":                                 "",
		"Temp | 06h | ok | 7.1 | Transition to OK":                                           "",
		"Temp | 06h | ok | 7.1 | Transition to Critical from less severe":                    "Temp is critical",
		"Temp | 06h | ok | 7.1 | Limit Not Exceeded":                                         "",
		"Temp | 06h | ok | 7.1 | Limit Exceeded":                                             "Temp is over its limit",
		"Lid | 06h | ok | 23.1 | General Chassis intrusion":                                  "",
		"OEM | 06h | ok | 7.9 | OEM Specific":                                                "",
		"ACPI | 06h | ok | 35.1 | S0/G0: working":                                            "",
		"PSU C | 06h | ok | 10.3 | Presence detected, Failure detected Deasserted, Disabled": "",
	} {
		got := ""
		for _, p := range sensors(line) {
			got += p.Text
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

func TestEventLogOverIPMI(t *testing.T) {
	now := time.Date(2026, 1, 29, 18, 0, 0, 0, time.UTC)
	log := `   1 | 01/20/2026 | 10:00:00 | Temperature CPU1 | Upper Critical going high | Asserted
   2 | 01/29/2026 | 15:00:00 | Temperature CPU2 | Upper Critical going high | Asserted
   3 | 01/29/2026 | 15:05:00 | Temperature CPU2 | Upper Critical going high | Deasserted
   4 | 01/29/2026 | 16:00:00 | Power Supply PS1 Status | Power Supply AC lost | Asserted
   8 | 01/29/2026 | 15:59:00 | Temperature CPU3 | Upper Critical going low | Asserted
   9 | 01/29/2026 | 16:00:30 | Power Unit | Power off/down | Asserted
   5 | 01/29/2026 | 16:01:00 | Temperature Inlet | Upper Non-critical going high | Asserted
   6 | 01/29/2026 | 16:02:00 | Memory ECC | Uncorrectable ECC | Asserted
   7 | Pre-Init  |0000000009| Memory ECC | Uncorrectable ECC | Asserted
`
	want := []string{"the event log says: Memory ECC: Uncorrectable ECC",
		"the event log says: Power Supply PS1 Status: Power Supply AC lost"}
	var got []string
	for _, p := range logged(log, now) {
		got = append(got, p.Text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// sensors returns the problems in the output of `ipmitool sdr elist`.
func sensors(out string) []providers.Problem {
	var h providers.Health
	for line := range strings.Lines(out) {
		if s, ok := parseSensor(line); ok {
			if p, bad := s.problem(); bad {
				h.Problems = append(h.Problems, p)
			}
		}
	}
	h.Sort()
	return h.Problems
}

// over describes a sensor's line with the output of `ipmitool sensor get`.
func over(line, more string) string {
	s, _ := parseSensor(line)
	return s.over(fields(more))
}

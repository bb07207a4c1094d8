package ipmi

import (
	"strings"
	"unicode"
)

// state is a state of a discrete sensor in the words of ipmitool, in lower case, and its fault in
// ours, or "" if it is none.
type state struct{ says, fault string }

// states judges the states of discrete sensors and events (IPMI 2.0 tables 42-2 and 42-3). The
// fault that explains most comes first. A state that is not listed is a vendor's own, and proves
// nothing.
//
// Lost input of a power supply is a problem of that supply. A power unit (sensor type 09h) loses
// its input whenever the machine is cut off; it names the state "AC lost", and a supply (08h)
// "Power Supply AC lost". Redundancy that is lost or insufficient is a problem; redundancy that is
// less than before, while the resources suffice, is not: the part that caused it is one. Not a
// fault is what a person, the operating system or the configuration causes: a part that is off,
// absent, disabled or throttled, a cover that is open.
func states() []state {
	return []state{
		// Power supply and power unit.
		{"power supply ac lost", "lost input"},
		{"ac lost or out-of-range", "lost input"},
		{"ac lost", ""}, // of a power unit
		{"ac out-of-range, but present", "has input out of its range"},
		{"failure detected", "failed"},
		{"predictive failure asserted", "is predicted to fail"},
		{"predictive failure deasserted", ""},
		{"predictive failure", "is predicted to fail"},
		{"config error", "is configured wrong"},
		{"configuration error", "is configured wrong"},
		{"240va power down", "was switched off for overload"},
		{"soft-power control failure", "does not control its power"},
		{"soft power control failure", "does not control its power"},
		{"power supply inactive", ""},
		{"power off/down", ""},
		{"power cycle", ""},
		{"interlock power down", ""},
		{"presence detected", ""},
		// Processor and interrupts.
		{"ierr", "has an internal error"},
		{"thermal trip", "tripped for heat"},
		{"frb1/bist failure", "failed its self-test"},
		{"frb2/hang in post failure", "hung in its self-test"},
		{"frb3/processor startup/init failure", "did not start"},
		{"sm bios uncorrectable cpu-complex error", "has an uncorrectable error"},
		{"uncorrectable machine check exception", "has an uncorrectable error"},
		{"correctable machine check error", ""},
		{"processor presence failure", "failed"},
		{"processor disabled", ""},
		{"bus uncorrectable error", "has an uncorrectable error"},
		{"bus fatal error", "has a fatal error"},
		{"bus correctable error", ""},
		{"bus degraded", "is degraded"},
		{"fatal nmi", "has a fatal error"},
		{"pci serr", "has a fatal error"},
		{"pci perr", "has a parity error"},
		{"nmi/diag interrupt", ""},
		{"software nmi", ""},
		// Memory.
		{"uncorrectable ecc", "has an uncorrectable error"},
		{"correctable ecc logging limit reached", "has many corrected errors"},
		{"correctable ecc", ""},
		{"parity check in progress", ""},
		{"parity", "has a parity error"},
		{"memory scrub failed", "has an uncorrectable error"},
		{"memory device disabled", ""},
		{"critical overtemperature", "is too hot"},
		{"spare", ""},
		{"throttled", ""},
		// Drive slot, slot, cable, battery, management.
		{"drive fault", "failed"},
		{"in failed array", "is in a failed array"},
		{"in critical array", "is in a critical array"},
		{"rebuild aborted", "was not rebuilt"},
		{"rebuild in progress", ""},
		{"drive present", ""},
		{"hot spare", ""},
		{"fault status", "has a fault"},
		{"fru failure", "failed"},
		{"sensor failure", ""},
		{"undetermined system hardware failure", "failed"},
		{"unrecoverable", "has an unrecoverable error"}, // of a firmware: "Unrecoverable system-board failure"
		{"no usable system memory", "has no usable memory"},
		{"bios corruption detected", "is corrupt"},
		{"low", "is low"},
		{"failed", "failed"},
		// Redundancy.
		{"redundancy lost", "lost redundancy"},
		{"non-redundant: insufficient", "lost redundancy"},
		{"non-redundant: sufficient from redundant", ""},
		{"non-redundant: sufficient resources from redundant", ""},
		{"non-redundant: sufficient from insufficient", ""},
		{"non-redundant: sufficient resources from insufficient", ""},
		{"redundancy degraded from non-redundant", ""}, // it got better
		{"redundancy degraded", ""},
		{"fully redundant", ""},
		// Severity, availability and limits of any sensor.
		{"transition to critical", "is critical"},
		{"transition to non-recoverable", "is beyond repair"},
		{"transition to non-critical", "is degraded"},
		{"transition to degraded", "is degraded"},
		{"transition to ok", ""},
		{"install error", "is installed wrong"},
		{"limit exceeded", "is over its limit"},
		{"limit not exceeded", ""},
		{"performance lags", ""},
		{"device absent", ""},
		{"device disabled", ""},
		{"state asserted", ""}, // of an unknown state
		// Thresholds, in the event log. Those in the other direction end a fault.
		{"upper critical going high", "is critical"},
		{"lower critical going low", "is critical"},
		{"upper non-recoverable going high", "is beyond repair"},
		{"lower non-recoverable going low", "is beyond repair"},
	}
}

// fault describes the first fault among states, which commas separate, or returns "". A state that
// is deasserted is not there. Details may follow the name of a state, such as those of a module.
func fault(reading string) string {
	reading = strings.ReplaceAll(strings.ToLower(reading), "non-redundant:", "non-redundant: ")
	reading = strings.Join(strings.Fields(reading), " ")
	found, order := "", len(states())
	rest := reading
	for rest != "" {
		i, n := judge(rest)
		one, after, _ := strings.Cut(rest[n:], ",")
		if i >= 0 && i < order && !strings.Contains(one, "deasserted") && states()[i].fault != "" {
			found, order = states()[i].fault, i
		}
		rest = strings.TrimSpace(after)
	}
	return found
}

// judge returns the index of the state that begins a text, the longest that does, and the length of
// its name, or -1 and 0.
func judge(says string) (index, length int) {
	index = -1
	for i, s := range states() {
		rest, ok := strings.CutPrefix(says, s.says)
		if ok && len(s.says) > length && !strings.HasPrefix(rest, "-") &&
			!strings.ContainsFunc(rest[:min(1, len(rest))], unicode.IsLetter) {
			index, length = i, len(s.says)
		}
	}
	return index, length
}

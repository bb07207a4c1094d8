package ipmi

import (
	"strings"

	"github.com/holdfast-metal/holdfast/providers"
)

// completion is a completion code of IPMI 2.0 (table 5-2) in the words of ipmitool, in lower case,
// and its class.
type completion struct {
	code  byte
	says  string
	class providers.Class
	adds  string // for an operator
}

// completions lists the completion codes that refuse a command. "Not now" is transient; "never" is
// what the command, its data or the account can never change.
func completions() []completion {
	const (
		notNow = providers.Transient
		never  = providers.Unsupported
	)
	return []completion{
		{0xc0, "node busy", notNow, ""},
		{0xc1, "invalid command", never, ""},
		{0xc2, "invalid command on lun", never, ""},
		{0xc3, "timeout", notNow, "the BMC gave up on the command"},
		{0xc4, "out of space", notNow, ""},
		{0xc5, "reservation cancelled or invalid", notNow, ""},
		{0xc6, "request data truncated", notNow, ""},
		{0xc7, "request data length invalid", never, ""},
		{0xc8, "request data field length limit exceeded", never, ""},
		{0xc9, "parameter out of range", never, ""},
		{0xca, "cannot return number of requested data bytes", notNow, ""},
		{0xcb, "requested sensor, data, or record not found", never, ""},
		{0xcc, "invalid data field in request", never, ""},
		{0xcd, "command illegal for specified sensor or record type", never, ""},
		{0xce, "command response could not be provided", notNow, ""},
		{0xcf, "cannot execute duplicated request", notNow, ""},
		{0xd0, "sdr repository in update mode", notNow, ""},
		{0xd1, "device firmware in update mode", notNow, ""},
		{0xd2, "bmc initialization in progress", notNow, ""},
		{0xd3, "destination unavailable", notNow, ""},
		{0xd4, "insufficient privilege level", never, "give the account of the BMC more privileges"},
		{0xd5, "command not supported in present state", notNow, ""},
		{0xd6, "cannot execute command, command disabled", never, "enable the command at the BMC"},
		{0xff, "unspecified error", notNow, ""},
	}
}

// completionOf returns the completion code that a line of ipmitool ends with, the last one of its
// output: "Set Chassis Power Control to Up failed: Node busy", "… rsp=0xd5): Command not supported
// in present state", "Device not present (Requested sensor, data, or record not found)".
func completionOf(out string) (found completion, ok bool) {
	for line := range strings.Lines(strings.ToLower(out)) {
		line = strings.TrimRight(strings.TrimSpace(line), ".)")
		for _, c := range completions() {
			before, ends := strings.CutSuffix(line, c.says)
			if ends && (strings.HasSuffix(before, ": ") || strings.HasSuffix(before, "(")) {
				found, ok = c, true
			}
		}
	}
	return found, ok
}

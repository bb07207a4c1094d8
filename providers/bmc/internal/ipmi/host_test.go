package ipmi

import (
	"errors"
	"testing"

	"github.com/holdfast-metal/holdfast/providers"
)

// Errors that ipmitool 1.8.19 printed, and others from its sources.
func TestIPMIErrors(t *testing.T) {
	const end = "\nError: Unable to establish IPMI v2 / RMCP+ session\n"
	for out, want := range map[string]providers.Class{
		"> RAKP 2 HMAC is invalid" + end:                              providers.Auth,
		"RAKP 2 message indicates an error : unauthorized name" + end: providers.Auth,
		"RAKP 2 message indicates an error : unauthorized GUID" + end: providers.Auth,
		// The BMC has no free session, or has lost this one, so the password was not checked.
		"RAKP 2 message indicates an error : insufficient resources for session" + end:        providers.Transient,
		"RAKP 2 message indicates an error : invalid session ID" + end:                        providers.Transient,
		"RAKP 2 message indicates an error : inactive session ID" + end:                       providers.Transient,
		"RAKP 2 message indicates an error : illegal or unrecognized parameter" + end:         providers.Transient,
		"Error: Received an Unexpected Open Session Response\n> RAKP 2 HMAC is invalid" + end: providers.Transient,
		"Error in open session response message : invalid authentication algorithm" + end:     providers.Unsupported,
		end: providers.Timeout,
		"Set Chassis Power Control to Down/Off failed: Command not supported in present state\n": providers.Unsupported,
		"Set Session Privilege Level to ADMINISTRATOR failed: Insufficient privilege level\n":    providers.Auth,
		"Chassis Power Control failed: Node busy\n":                                              providers.Transient,
	} {
		if got := providers.ClassOf(ToolError(t.Context(), "ipmitool", errors.New("exit status 1"), out)); got != want {
			t.Errorf("%q: got class %s, want %s", out, got, want)
		}
	}
}

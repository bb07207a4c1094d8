package ipmi

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
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
		"Error in open session response message : insufficient resources for session" + end:   providers.Transient,
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

// An account that IPMI cannot carry is a mistake to correct, not one to try again.
func TestAccountThatFits(t *testing.T) {
	for name, tt := range map[string]struct {
		user, password string
		bad            bool
	}{
		"longest":           {"0123456789abcdef", "0123456789abcdefghij", false},
		"password too long": {"admin", "0123456789abcdefghijk", true},
		"user too long":     {"0123456789abcdefg", "hunter2", true},
	} {
		err := fits(access.Account{User: tt.user, Password: tt.password})
		if (err != nil) != tt.bad || tt.bad && providers.ClassOf(err) != providers.Unsupported {
			t.Errorf("%s: got %v, want an error of class unsupported: %t", name, err, tt.bad)
		}
		if err != nil && strings.Contains(err.Error(), tt.password) {
			t.Errorf("%s: got %v with the password", name, err)
		}
	}
}

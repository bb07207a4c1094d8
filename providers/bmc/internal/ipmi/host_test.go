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
		"Chassis power failed: Command not supported in present state\n": providers.Transient,
		"Chassis power failed: Insufficient privilege level\n":           providers.Unsupported,
		"Chassis power failed: Timeout\n":                                providers.Transient,
		"Unable to send RAW command (channel=0x0 netfn=0x0 lun=0x0 cmd=0x8 rsp=0xc1): " +
			"Invalid command\n": providers.Unsupported,
		"Unable to send RAW command (channel=0x0 netfn=0x0 lun=0x0 cmd=0x8 rsp=0xd5): Command not supported " +
			"in present state\n": providers.Transient,
		"Set Boot parameter 5 failed: Cannot execute command, command disabled\n":             providers.Unsupported,
		" Device not present (Requested sensor, data, or record not found)\n":                 providers.Unsupported,
		"Get Device ID command failed: BMC initialization in progress\n":                      providers.Transient,
		"Get SEL Info command failed: Unknown (0x81)\n":                                       providers.Transient,
		"Error: no response from RAKP 1 message" + end:                                        providers.Timeout,
		"Set Session Privilege Level to ADMINISTRATOR failed: Insufficient privilege level\n": providers.Auth,
		"Chassis Power Control failed: Node busy\n":                                           providers.Transient,
	} {
		if got := providers.ClassOf(ToolError(t.Context(), "ipmitool", errors.New("exit status 1"), out)); got != want {
			t.Errorf("%q: got class %s, want %s", out, got, want)
		}
	}
}

// Each completion code of a command is an answer, whatever it says.
func TestCompletionCodes(t *testing.T) {
	for _, c := range completions() {
		out := "Chassis Power Control failed: " + strings.ToUpper(c.says[:1]) + c.says[1:] + "\n"
		err := ToolError(t.Context(), "ipmitool", errors.New("exit status 1"), out)
		if providers.ClassOf(err) != c.class || !access.IsAnswered(err) || access.Silent(err) {
			t.Errorf("code %#x: got %v of class %s, answered %v; want class %s", c.code, err, providers.ClassOf(err),
				access.IsAnswered(err), c.class)
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

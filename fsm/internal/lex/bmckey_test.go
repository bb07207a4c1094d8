package lex

import "testing"

func TestBMCKey(t *testing.T) {
	tests := []struct {
		want   string
		inputs []string
	}{
		{"10.9.9.9", []string{"10.9.9.9", "https://10.9.9.9", "HTTPS://10.9.9.9/", "https://10.9.9.9:443", "10.9.9.9:443",
			"10.9.9.9:623", "ipmi://10.9.9.9", "ipmi://10.9.9.9:623", "http://10.9.9.9:80", "https://[::ffff:10.9.9.9]",
			"https://10.9.9.9/redfish/v1/", "https://10.9.9.9/redfish/v1/Systems", "::ffff:10.9.9.9"}},
		{"bmc-1.lan", []string{"BMC-1.lan", "https://bmc-1.LAN.", "bmc-1.lan.:443"}},
		{"fd00::7", []string{"fd00::7", "[fd00::7]", "https://[fd00:0:0::7]/", "[FD00::7]:443", "ipmi://[fd00::7]"}},
		{"[fd00::7]:8443", []string{"[fd00::7]:8443", "https://[fd00:0::7]:8443/"}},
		{"10.9.9.9:8443", []string{"10.9.9.9:8443", "https://10.9.9.9:8443/"}},
		{"10.9.9.9:443", []string{"ipmi://10.9.9.9:443"}}, // another service
		{"10.9.9.9/redfish/v1/systems/1", []string{"https://10.9.9.9/redfish/v1/Systems/1",
			"https://10.9.9.9:443/redfish/v1/Systems/1/"}},
		{"10.9.9.9/redfish/v1/systems/2", []string{"https://10.9.9.9/redfish/v1/Systems/2"}},
		{"amt://10.9.9.9", []string{"amt://10.9.9.9"}},
		{"amt://10.9.9.9:443", []string{"amt://10.9.9.9:443"}},
		{"rpc://m-1", []string{"RPC://m-1"}},
		{"ironic://m-1", []string{"ironic://M-1"}},
	}
	for _, tt := range tests {
		for _, in := range tt.inputs {
			if got := BMCKey(in); got != tt.want {
				t.Errorf("%s: got %q, want %q", in, got, tt.want)
			}
		}
	}
}

package lex

import (
	"strings"
	"testing"
)

func TestEndpoints(t *testing.T) {
	both := []struct{ in, problem string }{
		{"10.0.0.1", ""},
		{"10.0.0.1:623", ""},
		{"bmc-1", ""},
		{"bmc_1.lan.example.", ""},
		{"3com.example:443", ""},
		{"fd00::7", ""},
		{"[fd00::7]", ""},
		{"[fd00::7]:2222", ""},
		{"", "is not a host"},
		{":22", "is not a host"},
		{"10.0.0.300", "is not an address"},
		{"10.0.0", "is not an address"},
		{"0251.0376.1.1", "is not an address"},
		{"2851995905", "is not an address"},
		{"0x7f000001", "is not an address"},
		{"https://0177.0.0.1", "is not an address"},
		{"127.1:443", "is not an address"},
		{"[::ffff:0.0.0.0]", "is not the address of a host"},
		{"10.0.0.1:99999", `the port "99999"`},
		{"10.0.0.1:0", `the port "0"`},
		{"10.0.0.1:022", `the port "022"`},
		{"10.0.0.1:", `the port ""`},
		{"host:ssh", `the port "ssh"`},
		{"0.0.0.0", "is not the address of a host"},
		{"224.0.0.1", "is not the address of a host"},
		{"[::]:22", "is not the address of a host"},
		{"fe80::1%eth0", "has a zone"},
		{"[fd00::7", "IPv6"},
		{"[10.0.0.1]:22", "IPv6"},
		{"a b", "is not the name"},
		{"-host", "is not the name"},
		{"host..lan", "is not the name"},
		{"höst", "is not the name"},
		{strings.Repeat("a", 64), "is not the name"},
	}
	bmc := []struct{ in, problem string }{
		{"https://10.0.0.1", ""},
		{"HTTPS://10.0.0.1:8443/", ""},
		{"https://bmc/redfish/v1/Systems/Node%200", ""},
		{"http://127.0.0.1:8000", ""},
		{"ipmi://10.0.0.1:623", ""},
		{"ironic://1be26c0b-03f2-4d2e-ae87-c02d7f33c123", ""},
		{"rpc://m-1", ""},
		{"http//10.0.0.1", "without https://"},
		{"10.0.0.1/redfish/v1", "without https://"},
		{"https:10.0.0.1", "the port"},
		{"https:/10.0.0.1", "without https://"},
		{"redfish://10.0.0.1", `the scheme "redfish"`},
		{"://10.0.0.1", "the scheme"},
		{"https://10.0.0.1:99999", `the port "99999"`},
		{"https://::1/redfish", "without brackets"},
		{"ipmi://fd00::7", "without brackets"},
		{"https://[fd00::7]/", ""},
		{"https://", "is not a host"},
		{"https:///redfish", "is not a host"},
		{"https://10.0.0.1?x=y", "a path that is not allowed"},
		{"https://10.0.0.1//redfish/v1", "another spelling"},
		{"https://10.0.0.1/redfish//v1", "another spelling"},
		{"https://10.0.0.1/redfish/v1//", "another spelling"},
		{"https://10.0.0.1/redfish/./v1", "another spelling"},
		{"https://10.0.0.1/redfish/v1/../v1", "another spelling"},
		{"https://10.0.0.1/redfish/v1/Systems/%31", "another spelling"},
		{"https://10.0.0.1/redfish/v1%2fSystems/1", "another spelling"},
		{"ipmi://10.0.0.1/x", "a path that is not allowed"},
		{"root@host", "contains a user name"},
		{"https://root:calvin@10.0.0.1", "contains a user name or a password"},
	}
	ssh := []struct{ in, problem string }{
		{"ssh://10.0.0.1", "is not an address"},
		{"ssh://root@h:22", "has a user that is no name"},
		{"root:calvin@10.0.0.1", "has a user that is no name"},
		{"@10.0.0.1", "has a user that is no name"},
		{"a@b@10.0.0.1", "is not an address"},
		{"root@10.0.0.1:99999", `the port "99999"`},
		{"root@10.0.0.1:22", ""},
		{"root@host", ""},
	}
	check := func(name string, parse func(string) string, tests []struct{ in, problem string }) {
		for _, tt := range tests {
			got := parse(tt.in)
			if (got == "") != (tt.problem == "") || !strings.Contains(got, tt.problem) {
				t.Errorf("%s(%q) = %q, want %q", name, tt.in, got, tt.problem)
			}
			if strings.Contains(got, "calvin") {
				t.Errorf("%s(%q) = %q shows a password", name, tt.in, got)
			}
		}
	}
	check("BMCEndpoint", BMCEndpoint, both)
	check("BMCEndpoint", BMCEndpoint, bmc)
	check("SSHEndpoint", SSHEndpoint, both)
	check("SSHEndpoint", SSHEndpoint, ssh)
}

func FuzzEndpoint(f *testing.F) {
	f.Add("https://[::1]:443/redfish")
	f.Add("host:22")
	f.Fuzz(func(t *testing.T, s string) {
		if BMCEndpoint(s) == "" && !SingleLine(s) || SSHEndpoint(s) == "" && !SingleLine(s) {
			t.Errorf("%q is accepted, and has control characters", s)
		}
	})
}

package lex

import "testing"

func TestPeerOnly(t *testing.T) {
	for _, tt := range []struct {
		endpoint string
		want     bool
	}{
		{"https://169.254.169.254", true},
		{"https://127.0.0.1:7400/redfish/v1/Systems/1", true},
		{"127.9.9.9", true},
		{"root@127.0.0.1:22", true},
		{"ipmi://[::1]:623", true},
		{"::1", true},
		{"[::ffff:127.0.0.1]:22", true},
		{"[64:ff9b::a9fe:a9fe]", true},
		{"[fd00:ec2::254]", true},
		{"fe80::1", true},
		{"0.0.0.0", true},
		{"LOCALHOST:22", true},
		{"https://a.localhost./", true},
		{"https://10.0.0.1", false},
		{"[64:ff9b::a00:1]:22", false},
		{"fd00:ec2::1", false},
		{"bmc.example:443", false},
		{"localhost.example", false},
		{"", false},
	} {
		if got := PeerOnly(tt.endpoint); (got != "") != tt.want {
			t.Errorf("%q: got %q, want one %t", tt.endpoint, got, tt.want)
		}
	}
}

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
		{"[2002:7f00:1::1]:22", true},
		{"https://[2002:a9fe:a9fe::]/redfish/v1", true},
		{"[::127.0.0.1]", true},
		{"::169.254.169.254", true},
		{"[64:ff9b:1::7f00:1]", true},
		{"[::ffff:0:127.0.0.1]", true},
		{"fe80::1%eth0", true},
		{"2130706433", true},
		{"0x7f000001:22", true},
		{"0177.0.0.1", true},
		{"https://127.1:443/", true},
		{"http://0251.0376.0xa9fe/", true},
		{"127.0.0.1.", true},
		{"https://10.0.0.1", false},
		{"[2002:a00:1::1]:22", false},
		{"[2001:db8::127.0.0.1]", false},
		{"0x0a000001", false},
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

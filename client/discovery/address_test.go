package discovery

import (
	"net/netip"
	"testing"
)

func TestRegistrationAddress(t *testing.T) {
	if got, err := RegistrationAddress("tool.example.com"); got != "tool.example.com" || err != nil {
		t.Errorf("RegistrationAddress: got %q, %v, want the announced address", got, err)
	}
	for _, announce := range []string{"", AutoAddress} {
		got, err := RegistrationAddress(announce)
		if err != nil {
			continue // a machine without a network
		}
		if a, err := netip.ParseAddr(got); err != nil || a.IsLoopback() {
			t.Errorf("RegistrationAddress(%q): got %q, want a reachable address", announce, got)
		}
	}
}

func TestBestAddress(t *testing.T) {
	tests := []struct {
		addrs []string
		want  string
	}{
		{[]string{"127.0.0.1", "::1", "fe80::1", "2001:db8::1", "fd00::1", "203.0.113.7", "10.0.0.5", "192.168.1.5"},
			"10.0.0.5"},
		{[]string{"127.0.0.1", "2001:db8::1", "fd00::1", "203.0.113.7"}, "203.0.113.7"},
		{[]string{"2001:db8::1", "fd00::1"}, "fd00::1"},
		{[]string{"::1", "2001:db8::1"}, "2001:db8::1"},
		{[]string{"127.0.0.1", "fe80::1", "169.254.7.7"}, ""},
		{nil, ""},
	}
	for _, tt := range tests {
		var addrs []netip.Addr
		for _, s := range tt.addrs {
			addrs = append(addrs, netip.MustParseAddr(s))
		}
		got, ok := bestAddress(addrs)
		if ok != (tt.want != "") || ok && got.String() != tt.want {
			t.Errorf("bestAddress(%v): got %v, %v, want %q", tt.addrs, got, ok, tt.want)
		}
	}
}

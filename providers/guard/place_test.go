package guard

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestResolve checks which address a program gets that connects by itself.
func TestResolve(t *testing.T) {
	names := map[string][]netip.Addr{
		"bmc.example":   {netip.MustParseAddr("10.0.0.7")},
		"six.example":   {netip.MustParseAddr("::ffff:10.0.0.8")},
		"evil.example":  {netip.MustParseAddr("127.0.0.1")},
		"cloud.example": {netip.MustParseAddr("169.254.169.254")},
		"both.example":  {netip.MustParseAddr("::1"), netip.MustParseAddr("10.0.0.9")},
		"none.example":  {},
	}
	lookup := func(_ context.Context, _, host string) ([]netip.Addr, error) {
		found, ok := names[host]
		if !ok {
			return nil, errors.New("no such host")
		}
		return found, nil
	}
	for _, tt := range []struct{ host, want, err string }{
		{"bmc.example", "10.0.0.7", ""}, {"six.example", "10.0.0.8", ""}, {"both.example", "10.0.0.9", ""},
		{"evil.example", "", "must not lead"}, {"cloud.example", "", "must not lead"},
		{"none.example", "", "has no address"}, {"unknown.example", "", "no such host"},
		{"127.0.0.1", "127.0.0.1", ""}, {"localhost", "localhost", ""}, {"2001:db8::1", "2001:db8::1", ""},
	} {
		got, err := resolve(t.Context(), tt.host, lookup)
		if got != tt.want || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %q, %v, want %q, %q", tt.host, got, err, tt.want, tt.err)
		}
	}
}

// TestDial: an address of this host is reached, and a name that leads there is not.
func TestDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c, err := Dial(10*time.Second)(t.Context(), "tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	for _, tt := range []struct {
		address string
		refused bool
	}{
		{"127.0.0.1:443", true}, {"[::1]:443", true}, {"[::ffff:127.0.0.1]:22", true}, {"169.254.169.254:80", true},
		{"[fe80::1%eth0]:22", true}, {"[fd00:ec2::254]:80", true}, {"0.0.0.0:22", true}, {"10.0.0.1:443", false},
		{"[2001:db8::1]:22", false},
	} {
		err := refuseAddress("tcp", tt.address, nil)
		if (err != nil) != tt.refused || err != nil && !strings.Contains(err.Error(), "must not lead") {
			t.Errorf("a name that leads to %s: got %v, want refused %t", tt.address, err, tt.refused)
		}
	}
	for host, want := range map[string]bool{"bmc.example": true, "127.0.0.1": false, "::1": false, "localhost": false,
		"LOCALHOST.": false} {
		if got := isName(host); got != want {
			t.Errorf("%s is a name: got %t, want %t", host, got, want)
		}
	}
}

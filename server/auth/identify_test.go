package auth

import (
	"net"
	"testing"
)

func TestHostOf(t *testing.T) {
	for _, a := range []net.Addr{
		&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1},
		&net.TCPAddr{IP: net.ParseIP("::ffff:10.0.0.1"), Port: 1},
		&net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 1},
		&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 1},
		&net.UnixAddr{Name: "/run/x", Net: "unix"},
	} {
		if got, want := hostOf(a), sourceOf(a.String()); got != want {
			t.Errorf("%v: got %q, want %q as from its text", a, got, want)
		}
	}
}

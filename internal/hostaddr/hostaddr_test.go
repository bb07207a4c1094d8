package hostaddr

import (
	"net/netip"
	"testing"
)

func TestOf(t *testing.T) {
	for host, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "[fe80::1]": "fe80::1", "169.254.169.254.": "169.254.169.254",
		"2851995905": "169.254.1.1", "0251.0376.1.1": "169.254.1.1", "0xa9fea9fe": "169.254.169.254",
		"127.1": "127.0.0.1", "0": "0.0.0.0",
		"host": "", "1.2.3.4.5": "", "256.1.1.1": "", "1_0.0.0.1": "", "0o177.0.0.1": "", "": "",
	} {
		a, ok := Of(host)
		if got := a.String(); ok != (want != "") || ok && got != want {
			t.Errorf("%q: got %s, %t, want %q", host, got, ok, want)
		}
	}
}

func TestWithin(t *testing.T) {
	for text, want := range map[string]string{
		"64:ff9b::a9fe:a9fe": "169.254.169.254", "2002:7f00:1::": "127.0.0.1", "::127.0.0.1": "127.0.0.1",
		"64:ff9b:1::10.0.0.1": "10.0.0.1", "::ffff:0:10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1",
		"::10.0.0.1%eth0": "10.0.0.1",
		"2001:db8::1":     "", "10.0.0.1": "",
	} {
		a, ok := Within(netip.MustParseAddr(text))
		if ok != (want != "") || ok && a.String() != want {
			t.Errorf("%s: got %s, %t, want %q", text, a, ok, want)
		}
	}
}

func TestReserved(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1": ThisHost, "::1": ThisHost, "::": ThisHost, "0.0.0.0": ThisHost, "2002:7f00:1::": ThisHost,
		"::ffff:0.0.0.0": ThisHost, "64:ff9b::127.9.9.9": ThisHost,
		"169.254.169.254": "a link-local address", "fe80::1%eth0": "a link-local address",
		"2002:a9fe:a9fe::": "a link-local address", "::169.254.169.254": "a link-local address",
		"fd00:ec2::254": "the metadata service of a cloud", "100.100.100.200": "the metadata service of a cloud",
		"::ffff:168.63.129.16": "the metadata service of a cloud", "64:ff9b::c000:c0": "the metadata service of a cloud",
		"10.0.0.1": "", "100.100.100.201": "", "2001:db8::1": "", "64:ff9b::10.0.0.1": "", "2002:a00:1::": "",
	} {
		if got := Reserved(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

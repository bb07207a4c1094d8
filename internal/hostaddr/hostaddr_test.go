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
		"2001:db8::1": "", "10.0.0.1": "",
	} {
		a, ok := Within(netip.MustParseAddr(text))
		if ok != (want != "") || ok && a.String() != want {
			t.Errorf("%s: got %s, %t, want %q", text, a, ok, want)
		}
	}
}

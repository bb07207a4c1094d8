package lex

import (
	"strings"
	"testing"
)

func TestMAC(t *testing.T) {
	const want = "02:ab:cd:ef:01:23"
	for _, tt := range []struct{ in, mac, problem string }{
		{"02:ab:cd:ef:01:23", want, ""},
		{"02-AB-CD-EF-01-23", want, ""},
		{"02ab.cdef.0123", want, ""},
		{" 02ABCDEF0123 ", want, ""},
		{"fe:ff:ff:ff:ff:ff", "fe:ff:ff:ff:ff:ff", ""},
		{"00:00:00:00:00:01", "00:00:00:00:00:01", ""},
		{"", "", "not a MAC address"},
		{"02:ab:cd:ef:01", "", "not a MAC address"},
		{"02:ab:cd:ef:01:2g", "", "not a MAC address"},
		{"02:ab:cd:ef:01:23:45:67", "", "not a MAC address"},
		{"00:00:00:00:00:00", "", "00:00:00:00:00:00 is no address"},
		{"000000000000", "", "is no address"},
		{"FF-FF-FF-FF-FF-FF", "", "ff:ff:ff:ff:ff:ff is the broadcast address"},
		{"01:00:5e:00:00:01", "", "is a multicast address"},
		{"33:33:00:00:00:01", "", "is a multicast address"},
		{"0180.c200.0000", "", "is a multicast address"},
		{"Ff:00:00:00:00:00", "", "is a multicast address"},
	} {
		mac, problem := ParseMAC(tt.in)
		if mac != tt.mac || !strings.Contains(problem, tt.problem) || (problem == "") != (tt.problem == "") {
			t.Errorf("ParseMAC(%q) = %q, %q; want %q, %q", tt.in, mac, problem, tt.mac, tt.problem)
		}
		if got, ok := MAC(tt.in); got != tt.mac || ok != (tt.mac != "") {
			t.Errorf("MAC(%q) = %q, %v; want %q", tt.in, got, ok, tt.mac)
		}
	}
}

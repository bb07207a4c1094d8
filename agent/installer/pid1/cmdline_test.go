package pid1

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLine(t *testing.T) {
	tests := []struct {
		line string
		want Line
	}{
		{"console=ttyS0 quiet", Line{}},
		{"initrd=i holdfast.url=http://10.0.0.1:7401 holdfast.token=s3cret=x ip=dhcp\n",
			Line{URL: "http://10.0.0.1:7401", Token: "s3cret=x"}},
		{"ip=10.0.2.15::10.0.2.2:255.255.255.0 mac=52:54:00:AA:BB:CC",
			Line{MAC: "52:54:00:aa:bb:cc", Addr: Addr{Prefix: netip.MustParsePrefix("10.0.2.15/24"),
				Gateway: netip.MustParseAddr("10.0.2.2")}}},
		{"BOOTIF=01-52-54-00-aa-bb-cc ip=10.0.0.9:::255.255.0.0:host:eth0:off:10.0.0.1:bad",
			Line{MAC: "52:54:00:aa:bb:cc", Addr: Addr{Prefix: netip.MustParsePrefix("10.0.0.9/16"),
				DNS: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}}},
		{"ip=:::::eth0:dhcp holdfast.hold", Line{Hold: true}},
		{"holdfast.macs=52:54:00:AA:BB:CC,52:54:00:aa:bb:cd ip=dhcp",
			Line{MACs: []string{"52:54:00:aa:bb:cc", "52:54:00:aa:bb:cd"}}},
	}
	for _, tt := range tests {
		got, err := ParseLine(tt.line)
		if err != nil {
			t.Errorf("%s: %v", tt.line, err)
		}
		if diff := cmp.Diff(tt.want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
			cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.line, diff)
		}
	}
	for _, bad := range []string{"ip=x:::255.255.255.0", "ip=10.0.0.1:::255.0.255.0", "ip=10.0.0.1:::x",
		"ip=10.0.0.1::x:255.255.255.0", "ip=fd00::1:2:3:4"} {
		if got, err := ParseLine(bad); err == nil {
			t.Errorf("%s: got %+v, want an error", bad, got)
		}
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add("holdfast.url=x holdfast.token=y ip=1.2.3.4::5.6.7.8:255.255.255.0:::::9.9.9.9")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = ParseLine(text) })
}

package pxe

import (
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

// packet returns a DISCOVER with a class and, if there are any, architectures.
func packet(t testing.TB, class string, archs ...iana.Arch) *dhcpv4.DHCPv4 {
	t.Helper()
	p := asks(t, mac, class, "", 0, dhcpv4.MessageTypeDiscover)
	p.Options.Del(dhcpv4.OptionClientSystemArchitectureType)
	if len(archs) > 0 {
		p.UpdateOption(dhcpv4.OptClientArch(archs...))
	}
	return p
}

// TestArchitectures sends the ways in which firmware names its architecture.
func TestArchitectures(t *testing.T) {
	const http = "http://10.0.0.1:7404/netboot/"
	for _, tt := range []struct {
		name  string
		class string
		archs []iana.Arch
		want  seen
		err   string
	}{
		{"several, the first without a program", "PXEClient", []iana.Arch{iana.EFI_IA32, iana.EFI_X86_64},
			seen{"OFFER", "PXEClient", "", "10.0.0.1", false}, ""},
		{"several, BIOS first", "PXEClient", []iana.Arch{iana.INTEL_X86PC, iana.EFI_X86_64},
			seen{"OFFER", "PXEClient", "undionly.kpxe", "10.0.0.1", true}, ""},
		{"only in option 60", "PXEClient:Arch:00000:UNDI:002001", nil,
			seen{"OFFER", "PXEClient", "undionly.kpxe", "10.0.0.1", true}, ""},
		{"only in option 60, UEFI", "PXEClient:Arch:00007:UNDI:003016", nil,
			seen{"OFFER", "PXEClient", "", "10.0.0.1", false}, ""},
		{"only in option 60, HTTP", "HTTPClient:Arch:00016", nil,
			seen{"OFFER", "HTTPClient", http + "ipxe.efi", "10.0.0.1", false}, ""},
		{"nowhere", "PXEClient", nil, seen{}, ""},
		{"damaged", "PXEClient:Arch:x7:UNDI", nil, seen{}, ""},
		{"larger than a number", "PXEClient:Arch:99999:UNDI", nil, seen{}, ""},
		{"U-Boot", "PXEClient:Arch:00022:UNDI:003000", []iana.Arch{iana.UBOOT_ARM64},
			seen{"OFFER", "PXEClient", "ipxe-arm64.efi", "10.0.0.1", true}, ""},
		{"U-Boot over HTTP", "HTTPClient", []iana.Arch{iana.UBOOT_ARM64_HTTP},
			seen{"OFFER", "HTTPClient", http + "ipxe-arm64.efi", "10.0.0.1", false}, ""},
		{"U-Boot of 32 bits", "PXEClient", []iana.Arch{iana.UBOOT_ARM32}, seen{}, "21 (U-Boot ARM32)"},
		{"U-Boot of 32 bits over HTTP", "HTTPClient", []iana.Arch{iana.UBOOT_ARM32_HTTP}, seen{}, "23 (U-boot ARM32"},
		{"none of several", "PXEClient", []iana.Arch{iana.EFI_IA32, iana.EFI_RISCV64}, seen{},
			"6 (EFI IA32) or 27 (EFI RISC-V 64-bit): boot the machine by"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := newServer(t, installing()).answer(t.Context(), packet(t, tt.class, tt.archs...), false)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("got error %v, want %q in it", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, see(got)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFirmwareThatNeverAsks checks that UEFI which does not ask on port 4011 gets the file in the
// offer to its next discovery, and UEFI which asks there never does.
func TestFirmwareThatNeverAsks(t *testing.T) {
	s := newServer(t, installing())
	discover := func(id byte) string {
		t.Helper()
		p := packet(t, "PXEClient", iana.EFI_X86_64)
		p.TransactionID = dhcpv4.TransactionID{id}
		got, err := s.answer(t.Context(), p, false)
		if err != nil {
			t.Fatal(err)
		}
		return see(got).File
	}
	send := func(user string, kind dhcpv4.MessageType, proxy bool) {
		t.Helper()
		if _, err := s.answer(t.Context(), asks(t, mac, "PXEClient", user, iana.EFI_X86_64, kind), proxy); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, id := range []byte{1, 1, 2, 2, 3, 4} {
		got = append(got, discover(id))
	}
	send("", dhcpv4.MessageTypeRequest, true) // it asks
	got = append(got, discover(5))
	send("iPXE", dhcpv4.MessageTypeDiscover, false) // it asked another peer, and has iPXE
	got = append(got, discover(6))
	if diff := cmp.Diff([]string{"", "", "ipxe.efi", "ipxe.efi", "", "ipxe.efi", "", ""}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// FuzzOffer checks that no packet makes the server fail, and that it offers only its own programs.
func FuzzOffer(f *testing.F) {
	f.Add(packet(f, "PXEClient:Arch:00007:UNDI:003016", iana.EFI_IA32, iana.EFI_X86_64).ToBytes(), false)
	f.Add(packet(f, "HTTPClient:Arch:00016").ToBytes(), true)
	f.Add(asks(f, mac, "PXEClient", "iPXE", iana.INTEL_X86PC, dhcpv4.MessageTypeDiscover).ToBytes(), false)
	f.Fuzz(func(t *testing.T, raw []byte, proxy bool) {
		p, err := dhcpv4.FromBytes(raw)
		if err != nil {
			return
		}
		got, err := newServer(t, answers{p.ClientHWAddr.String(): installing()[mac]}).answer(t.Context(), p, proxy)
		if got == nil || err != nil {
			return
		}
		file := see(got).File
		if file != "" && nameOf(file) == "" && !strings.HasPrefix(file, "http://10.0.0.1:7404/") {
			t.Errorf("offered %q", file)
		}
		if _, err := dhcpv4.FromBytes(got.ToBytes()); err != nil {
			t.Errorf("answer cannot be read: %v", err)
		}
		if len(got.ClientHWAddr) != 6 || net.HardwareAddr(got.ClientHWAddr).String() != p.ClientHWAddr.String() {
			t.Errorf("answered %v, want %v", got.ClientHWAddr, p.ClientHWAddr)
		}
	})
}

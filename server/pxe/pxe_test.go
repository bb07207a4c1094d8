package pxe

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/pin/tftp/v3"
	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const mac = "52:54:00:77:00:01"

// answers maps MAC addresses to boot actions. Other machines boot their disk.
type answers map[string]*holdfastv1.BootMachineResponse

func (a answers) LookUpBoot(
	_ context.Context, r *holdfastv1.BootMachineRequest, _ ...grpc.CallOption,
) (*holdfastv1.BootMachineResponse, error) {
	if r.GetMac() == "02:00:00:00:00:99" {
		return nil, errors.New("the cluster has no leader")
	}
	if boots, ok := a[r.GetMac()]; ok {
		return boots, nil
	}
	return &holdfastv1.BootMachineResponse{Action: holdfastv1.BootMachineResponse_DISK}, nil
}

func installing() answers {
	return answers{mac: {Action: holdfastv1.BootMachineResponse_INSTALL}}
}

func newServer(t *testing.T, installs Installs) *Server {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"undionly.kpxe", "ipxe.efi", "ipxe-arm64.efi", "secret"} {
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte(name), 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(Config{Interface: "lo", Host: netip.MustParseAddr("10.0.0.1"), BootPort: 7404, Dir: dir}, installs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asks returns a packet as firmware sends it.
func asks(t testing.TB, mac, class, user string, arch iana.Arch, kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	t.Helper()
	hw, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	mods := []dhcpv4.Modifier{
		dhcpv4.WithHwAddr(hw), dhcpv4.WithMessageType(kind), dhcpv4.WithOption(dhcpv4.OptClientArch(arch)),
		dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionClientMachineIdentifier, make([]byte, 17))),
	}
	if class != "" {
		mods = append(mods, dhcpv4.WithOption(dhcpv4.OptClassIdentifier(class)))
	}
	if user != "" {
		mods = append(mods, dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionUserClassInformation, []byte(user))))
	}
	p, err := dhcpv4.New(mods...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// seen is the relevant part of a reply.
type seen struct {
	Type, Class, File, Server string
	Direct                    bool
}

func see(p *dhcpv4.DHCPv4) seen {
	if p == nil {
		return seen{}
	}
	s := seen{Type: p.MessageType().String(), Class: p.ClassIdentifier(), File: p.BootFileName,
		Server: p.ServerIPAddr.String(), Direct: bytes.Equal(p.Options.Get(dhcpv4.OptionVendorSpecificInformation),
			[]byte{6, 1, 8, 255})}
	if s.File == "" {
		s.File = p.BootFileNameOption()
	}
	return s
}

func TestAnswers(t *testing.T) {
	const script = "http://10.0.0.1:7404/api/v1/boot?mac=52%3A54%3A00%3A77%3A00%3A01"
	boots := answers{
		mac:                 {Action: holdfastv1.BootMachineResponse_INSTALL},
		"02:00:00:00:00:02": {Action: holdfastv1.BootMachineResponse_WAIT},
		"02:00:00:00:00:03": {Action: holdfastv1.BootMachineResponse_DISK, Unknown: true},
		"02:00:00:00:00:04": {Action: holdfastv1.BootMachineResponse_DISK, MachineId: "m-4"},
	}
	offer := func(class, file string, direct bool) seen { return seen{"OFFER", class, file, "10.0.0.1", direct} }
	tests := []struct {
		name        string
		mac         string
		class, user string
		arch        iana.Arch
		kind        dhcpv4.MessageType
		at          bool // port 4011
		want        seen
	}{
		{"BIOS", mac, "PXEClient:Arch:00000:UNDI:002001", "", iana.INTEL_X86PC, dhcpv4.MessageTypeDiscover, false,
			offer("PXEClient", "undionly.kpxe", true)},
		{"iPXE under BIOS", mac, "PXEClient:Arch:00000:UNDI:002001", "iPXE", iana.INTEL_X86PC, dhcpv4.MessageTypeDiscover,
			false, offer("PXEClient", script, true)},
		{"iPXE with lengths", mac, "PXEClient:Arch:00000:UNDI:002001", "\x04iPXE", iana.INTEL_X86PC,
			dhcpv4.MessageTypeDiscover, false, offer("PXEClient", script, true)},
		{"offer to UEFI", mac, "PXEClient:Arch:00007:UNDI:003016", "", iana.EFI_BC, dhcpv4.MessageTypeDiscover, false,
			offer("PXEClient", "", false)},
		{"boot server of UEFI", mac, "PXEClient:Arch:00007:UNDI:003016", "", iana.EFI_BC, dhcpv4.MessageTypeRequest, true,
			seen{"ACK", "PXEClient", "ipxe.efi", "10.0.0.1", false}},
		{"UEFI of the other number", mac, "PXEClient:Arch:00009:UNDI:003016", "", iana.EFI_X86_64,
			dhcpv4.MessageTypeRequest, true, seen{"ACK", "PXEClient", "ipxe.efi", "10.0.0.1", false}},
		{"UEFI on ARM", mac, "PXEClient:Arch:00011:UNDI:003016", "", iana.EFI_ARM64, dhcpv4.MessageTypeRequest, true,
			seen{"ACK", "PXEClient", "ipxe-arm64.efi", "10.0.0.1", false}},
		{"iPXE under UEFI", mac, "PXEClient:Arch:00007:UNDI:003016", "iPXE", iana.EFI_BC, dhcpv4.MessageTypeDiscover, false,
			offer("PXEClient", script, true)},
		{"UEFI over HTTP", mac, "HTTPClient:Arch:00016:UNDI:003016", "", iana.EFI_X86_64_HTTP, dhcpv4.MessageTypeDiscover,
			false, offer("HTTPClient", "http://10.0.0.1:7404/netboot/ipxe.efi", false)},
		{"about to be installed", "02:00:00:00:00:02", "PXEClient:Arch:00000:UNDI:002001", "", iana.INTEL_X86PC,
			dhcpv4.MessageTypeDiscover, false, offer("PXEClient", "undionly.kpxe", true)},
		{"may be discovered", "02:00:00:00:00:03", "PXEClient:Arch:00000:UNDI:002001", "", iana.INTEL_X86PC,
			dhcpv4.MessageTypeDiscover, false, offer("PXEClient", "undionly.kpxe", true)},

		{"boots its disk", "02:00:00:00:00:04", "PXEClient:Arch:00000:UNDI:002001", "", iana.INTEL_X86PC,
			dhcpv4.MessageTypeDiscover, false, seen{}},
		{"unknown", "02:00:00:00:00:05", "PXEClient:Arch:00000:UNDI:002001", "", iana.INTEL_X86PC,
			dhcpv4.MessageTypeDiscover, false, seen{}},
		{"an operating system", mac, "", "", iana.INTEL_X86PC, dhcpv4.MessageTypeDiscover, false, seen{}},
		{"a phone", mac, "android-dhcp-13", "", iana.INTEL_X86PC, dhcpv4.MessageTypeDiscover, false, seen{}},
		{"a request for an address", mac, "PXEClient:Arch:00000:UNDI:002001", "", iana.INTEL_X86PC,
			dhcpv4.MessageTypeRequest, false, seen{}},
		{"a release", mac, "PXEClient:Arch:00000:UNDI:002001", "", iana.INTEL_X86PC, dhcpv4.MessageTypeRelease, true, seen{}},
		{"a group address", "01:00:5e:00:00:01", "PXEClient:Arch:00000:UNDI:002001", "", iana.INTEL_X86PC,
			dhcpv4.MessageTypeDiscover, false, seen{}},
	}
	s := newServer(t, boots)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := s.answer(t.Context(), asks(t, tt.mac, tt.class, tt.user, tt.arch, tt.kind), tt.at)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, see(got)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if got != nil && (!got.YourIPAddr.IsUnspecified() || got.IPAddressLeaseTime(0) != 0 ||
				len(got.Options.Get(dhcpv4.OptionClientMachineIdentifier)) != 17) {
				t.Errorf("got an address, or another machine identifier:\n%s", got.Summary())
			}
		})
	}
	for name, p := range map[string]*dhcpv4.DHCPv4{
		"no program": asks(t, mac, "PXEClient:Arch:00006", "", iana.EFI_IA32, dhcpv4.MessageTypeDiscover),
		"no leader": asks(t, "02:00:00:00:00:99", "PXEClient:Arch:00000", "", iana.INTEL_X86PC,
			dhcpv4.MessageTypeDiscover),
		"nothing else": asks(t, mac, "PXEClient:Arch:00027", "", iana.Arch(27), dhcpv4.MessageTypeDiscover),
	} {
		if got, err := s.answer(t.Context(), p, false); got != nil || err == nil {
			t.Errorf("%s: got %v, %v, want an error", name, got, err)
		}
	}
}

// serve runs a server on loopback and returns its addresses.
func serve(t *testing.T, s *Server) sockets {
	t.Helper()
	var open sockets
	for _, c := range []**net.UDPConn{&open.dhcp, &open.proxy, &open.tftp} {
		var err error
		if *c, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.serve(ctx, open) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: got %v", err)
		}
	})
	return open
}

// On real sockets: malformed packets are ignored, and replies go to the sender.
func TestPackets(t *testing.T) {
	open := serve(t, newServer(t, installing()))
	c, err := net.DialUDP("udp4", nil, open.proxy.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{{}, []byte("hello"), bytes.Repeat([]byte{1}, 1500),
		asks(t, mac, "PXEClient:Arch:00007", "", iana.EFI_BC, dhcpv4.MessageTypeRequest).ToBytes()} {
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	b := make([]byte, 1500)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	p, err := dhcpv4.FromBytes(b[:n])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(seen{"ACK", "PXEClient", "ipxe.efi", "10.0.0.1", false}, see(p)); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func TestAnswerAddress(t *testing.T) {
	p := asks(t, mac, "PXEClient", "", iana.INTEL_X86PC, dhcpv4.MessageTypeDiscover)
	if got := answerTo(p, &net.UDPAddr{IP: net.IPv4zero, Port: 68}).String(); got != "255.255.255.255:68" {
		t.Errorf("client without an address: got %s", got)
	}
	if got := answerTo(p, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 4011}).String(); got != "10.0.0.9:4011" {
		t.Errorf("client with an address: got %s", got)
	}
	p.GatewayIPAddr = net.IPv4(10, 9, 0, 1)
	if got := answerTo(p, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 4011}).String(); got != "10.9.0.1:67" {
		t.Errorf("relay: got %s", got)
	}
}

func TestFiles(t *testing.T) {
	open := serve(t, newServer(t, installing()))
	c, err := tftp.NewClient(open.tftp.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.RequestTSize(true)
	for _, tt := range []struct{ name, want string }{
		{"undionly.kpxe", strings.Repeat("undionly.kpxe", 1000)},
		{"/tftpboot/ipxe.efi", strings.Repeat("ipxe.efi", 1000)},
		{`\boot\ipxe.efi`, strings.Repeat("ipxe.efi", 1000)},
		{"autoexec.ipxe", "#!ipxe\n:again\nisset ${ip} || dhcp || goto wait\nchain --replace " +
			"http://10.0.0.1:7404/api/v1/boot?mac=${mac}&arch=${buildarch} || goto wait\n:wait\nsleep 3\ngoto again\n"},
	} {
		from, err := c.Receive(tt.name, "octet")
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if n, ok := from.(tftp.IncomingTransfer).Size(); !ok || n != int64(len(tt.want)) {
			t.Errorf("%s: got %d bytes (%v), want %d", tt.name, n, ok, len(tt.want))
		}
		var b bytes.Buffer
		if _, err := from.WriteTo(&b); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	for _, name := range []string{"secret", "../secret", "/etc/passwd", "", ".", "snponly.efi", strings.Repeat("x", 400)} {
		if _, err := c.Receive(name, "octet"); err == nil || strings.Contains(err.Error(), os.TempDir()) {
			t.Errorf("%.40q: got %v, want an error without a path", name, err)
		}
	}
	if _, err := c.Send("ipxe.efi", "octet"); err == nil {
		t.Error("write a file: got no error")
	}
}

func TestNew(t *testing.T) {
	for name, cfg := range map[string]Config{
		"IPv6":         {Host: netip.MustParseAddr("fd00::1"), Dir: t.TempDir()},
		"no directory": {Host: netip.MustParseAddr("10.0.0.1"), Dir: "/nowhere"},
		"none named":   {Host: netip.MustParseAddr("10.0.0.1")},
	} {
		if _, err := New(cfg, installing()); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}

// For any packet, a reply is valid DHCP, assigns no address, and goes to firmware only.
func FuzzAnswer(f *testing.F) {
	for _, class := range []string{"PXEClient:Arch:00000:UNDI:002001", "HTTPClient:Arch:00016", "dhcpcd", ""} {
		for _, at := range []bool{false, true} {
			f.Add(asks(f, mac, class, "iPXE", iana.EFI_BC, dhcpv4.MessageTypeDiscover).ToBytes(), at)
			f.Add(asks(f, mac, class, "", iana.INTEL_X86PC, dhcpv4.MessageTypeRequest).ToBytes(), at)
		}
	}
	dir := f.TempDir()
	for _, name := range []string{"undionly.kpxe", "ipxe.efi"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	s, err := New(Config{Host: netip.MustParseAddr("10.0.0.1"), BootPort: 7404, Dir: dir}, everybody{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte, at bool) {
		p, err := dhcpv4.FromBytes(b)
		if err != nil {
			return
		}
		got, err := s.answer(t.Context(), p, at)
		if got == nil || err != nil {
			return
		}
		again, err := dhcpv4.FromBytes(got.ToBytes())
		if err != nil {
			t.Fatalf("parse the answer: %v\n%s", err, got.Summary())
		}
		class := p.ClassIdentifier()
		if !strings.HasPrefix(class, "PXEClient") && !strings.HasPrefix(class, "HTTPClient") ||
			again.OpCode != dhcpv4.OpcodeBootReply || !again.YourIPAddr.IsUnspecified() ||
			again.TransactionID != p.TransactionID {
			t.Errorf("answer to\n%s\ngot\n%s", p.Summary(), again.Summary())
		}
		answerTo(p, &net.UDPAddr{IP: net.IPv4zero})
	})
}

type everybody struct{}

func (everybody) LookUpBoot(
	context.Context, *holdfastv1.BootMachineRequest, ...grpc.CallOption,
) (*holdfastv1.BootMachineResponse, error) {
	return &holdfastv1.BootMachineResponse{Action: holdfastv1.BootMachineResponse_INSTALL}, nil
}

func FuzzNames(f *testing.F) {
	for _, name := range []string{"ipxe.efi", "../../etc/shadow", `..\ipxe.efi`, "a/autoexec.ipxe", "\x00", "ipxe.efi/",
		`ipxe.efi\x\..`} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, asked string) {
		if name := nameOf(asked); strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, "..") || name != "" &&
			!strings.Contains(asked, name) {
			t.Errorf("%q: got %q", asked, name)
		}
	})
}

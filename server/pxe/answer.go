package pxe

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The prefixes of option 60: firmware that fetches with TFTP, and with HTTP.
const (
	pxeClient  = "PXEClient"
	httpClient = "HTTPClient"
)

// bootsDirectly is option 43 of PXE: PXE_DISCOVERY_CONTROL with bit 3. It makes the
// firmware boot the file of this offer without discovering boot servers.
func bootsDirectly() []byte { return []byte{6, 1, 8, 255} }

// firmware is the sender of a packet, as described by the packet.
type firmware struct {
	mac   string
	archs []iana.Arch // that it can boot, in its order; at least one
	ipxe  bool        // iPXE, which accepts a URL
	http  bool
	class string // option 60 of the reply
}

// read parses a packet. It returns false if the sender is not firmware that boots from the
// network.
func read(p *dhcpv4.DHCPv4) (firmware, bool) {
	f := firmware{mac: p.ClientHWAddr.String()}
	ethernet := p.HWType == iana.HWTypeEthernet && len(p.ClientHWAddr) == 6 && p.ClientHWAddr[0]&1 == 0
	if p.OpCode != dhcpv4.OpcodeBootRequest || !ethernet {
		return f, false
	}
	switch class := p.ClassIdentifier(); {
	case strings.HasPrefix(class, pxeClient):
		f.class = pxeClient
	case strings.HasPrefix(class, httpClient):
		f.class, f.http = httpClient, true
	default:
		return f, false
	}
	if f.archs = p.ClientArch(); len(f.archs) == 0 {
		f.archs = archOf(p.ClassIdentifier())
	}
	if len(f.archs) == 0 {
		return f, false // required by RFC 4578 §2.1
	}
	for _, c := range p.UserClass() {
		f.ipxe = f.ipxe || c == "iPXE"
	}
	// iPXE sends its user class without the length bytes of RFC 3004.
	f.ipxe = f.ipxe || string(p.Options.Get(dhcpv4.OptionUserClassInformation)) == "iPXE"
	return f, true
}

// archOf returns the architecture in option 60, PXEClient:Arch:00007:UNDI:003016. Some firmware
// names it only there.
func archOf(class string) []iana.Arch {
	_, rest, ok := strings.Cut(class, ":Arch:")
	if !ok {
		return nil
	}
	digits, _, _ := strings.Cut(rest, ":")
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return nil
	}
	return []iana.Arch{iana.Arch(n)}
}

// programs returns the files that an architecture boots, best first (RFC 4578 §2.1 and
// IANA's list of processor architectures).
func programs(a iana.Arch) []string {
	switch a {
	case iana.INTEL_X86PC:
		return []string{"undionly.kpxe", "ipxe.pxe"}
	case iana.EFI_BC, iana.EFI_X86_64, iana.EFI_X86_64_HTTP:
		return []string{"ipxe.efi", "snponly.efi"}
	case iana.EFI_ARM64, iana.EFI_ARM64_HTTP, iana.UBOOT_ARM64, iana.UBOOT_ARM64_HTTP: // U-Boot runs programs of UEFI
		return []string{"ipxe-arm64.efi"}
	}
	return nil
}

// asksLater reports whether firmware requests the file on port 4011: UEFI does, and several vendors
// ignore an offer that already names it. BIOS and U-Boot take the file of the offer.
func asksLater(a iana.Arch) bool {
	switch a {
	case iana.INTEL_X86PC, iana.UBOOT_ARM32, iana.UBOOT_ARM64, iana.UBOOT_ARM32_HTTP, iana.UBOOT_ARM64_HTTP:
		return false
	}
	return true
}

// program returns the first existing file for one of the architectures, and its architecture.
func (s *Server) program(archs []iana.Arch) (string, iana.Arch, error) {
	var known, unknown []string
	for _, a := range archs {
		for _, name := range programs(a) {
			if info, err := os.Stat(filepath.Join(s.cfg.Dir, name)); err == nil && info.Mode().IsRegular() {
				return name, a, nil
			}
			known = append(known, name)
		}
		unknown = append(unknown, fmt.Sprintf("%d (%s)", a, a))
	}
	what := "firmware of architecture " + strings.Join(unknown, " or ")
	if len(known) == 0 {
		return "", 0, fmt.Errorf("there is no program for %s: boot the machine by BIOS or UEFI of x86-64 or ARM64, or by a "+
			"virtual medium", what)
	}
	return "", 0, fmt.Errorf("there is no program for %s in %s: want one of %s", what, s.cfg.Dir,
		strings.Join(known, ", "))
}

func (s *Server) url(path string) string {
	return fmt.Sprintf("http://%s:%d%s", s.cfg.Host, s.cfg.BootPort, path)
}

// file returns the file for firmware: the boot script for iPXE, and iPXE for all others. later is
// whether the firmware requests it on port 4011.
func (s *Server) file(f firmware) (name string, later bool, err error) {
	if f.ipxe {
		return s.url("/api/v1/boot?mac=" + url.QueryEscape(f.mac)), false, nil
	}
	name, arch, err := s.program(f.archs)
	if err == nil && f.http {
		return s.url("/netboot/" + name), false, nil
	}
	return name, asksLater(arch), err
}

// answer returns the reply to a packet, or nil if there is none. Proxy is whether the packet
// arrived on port 4011.
func (s *Server) answer(ctx context.Context, p *dhcpv4.DHCPv4, proxy bool) (*dhcpv4.DHCPv4, error) {
	f, is := read(p)
	kind := dhcpv4.MessageTypeOffer
	switch {
	case !is:
		return nil, nil //nolint:nilnil // no reply is not an error
	case proxy && p.MessageType() == dhcpv4.MessageTypeRequest:
		kind = dhcpv4.MessageTypeAck
	case proxy || p.MessageType() != dhcpv4.MessageTypeDiscover:
		return nil, nil //nolint:nilnil // a request to port 67 is for the DHCP server
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	boots, err := s.installs.LookUpBoot(ctx, &holdfastv1.BootMachineRequest{Mac: f.mac})
	if err != nil {
		return nil, fmt.Errorf("look up the boot action of %s: %w", f.mac, err)
	}
	switch {
	case boots.GetAction() == holdfastv1.BootMachineResponse_INSTALL,
		boots.GetAction() == holdfastv1.BootMachineResponse_WAIT,
		boots.GetUnknown():
	default:
		return nil, nil //nolint:nilnil // no reply makes the firmware boot the next device, the disk
	}
	name, asks, err := s.file(f)
	if err != nil {
		return nil, err
	}
	switch {
	case f.ipxe || proxy: // the firmware knows what to do
		s.tries.forget(f.mac)
	case asks && s.tries.add(f.mac, p.TransactionID, time.Now())%2 == 0:
		asks = false // it did not ask last time
	}
	mods := []dhcpv4.Modifier{
		dhcpv4.WithMessageType(kind),
		dhcpv4.WithServerIP(s.cfg.Host.AsSlice()),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IP(s.cfg.Host.AsSlice()))),
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier(f.class)),
	}
	if id := p.Options.Get(dhcpv4.OptionClientMachineIdentifier); len(id) > 0 {
		mods = append(mods, dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionClientMachineIdentifier, id)))
	}
	switch {
	case asks && !proxy: // it requests the file on port 4011 next
	case f.http:
		mods = append(mods, dhcpv4.WithOption(dhcpv4.OptBootFileName(name)))
	default:
		mods = append(mods, bootFile(name))
		if !asks {
			direct := dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, bootsDirectly())
			mods = append(mods, dhcpv4.WithOption(direct))
		}
	}
	reply, err := dhcpv4.NewReplyFromRequest(p, mods...)
	if err != nil {
		return nil, fmt.Errorf("answer %s: %w", f.mac, err)
	}
	return reply, nil
}

// bootFile sets the boot file name in the header field, or in an option if it is too long
// for that (RFC 2131 §2).
func bootFile(name string) dhcpv4.Modifier {
	return func(p *dhcpv4.DHCPv4) {
		if len(name) < 128 {
			p.BootFileName = name
			return
		}
		p.UpdateOption(dhcpv4.OptBootFileName(name))
	}
}

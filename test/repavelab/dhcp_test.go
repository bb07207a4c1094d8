//go:build linux

package repavelab

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/insomniacslk/dhcp/iana"
)

// snippet returns the indented lines of docs/netboot.md after the paragraph that begins with a
// text.
func snippet(t *testing.T, begins string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "netboot.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut("\n"+string(page), "\n"+begins)
	if !found {
		t.Fatalf("docs/netboot.md has no paragraph %q", begins)
	}
	var b strings.Builder
	for line := range strings.SplitSeq(rest, "\n") {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			b.WriteString(code + "\n")
		} else if b.Len() > 0 && line != "" {
			break
		}
	}
	return b.String()
}

// dhcpServer is a DHCP server with a configuration in docs/netboot.md.
type dhcpServer struct {
	name, program string
	config        func(t *testing.T) string
	test          []string // arguments to check the configuration file, whose name follows
	run           []string // arguments to run it
	proxy         bool     // it assigns no addresses: firmware requests the file on port 4011
	files         map[string]string
}

func dhcpServers() []dhcpServer {
	return []dhcpServer{
		{"dnsmasq", "dnsmasq", func(t *testing.T) string { return snippet(t, "Without `--netboot`, dnsmasq") },
			[]string{"--test", "-C"}, []string{"--keep-in-foreground", "--user=root", "--pid-file=", "--interface=dhcp0",
				"-C"}, true,
			map[string]string{"BIOS": "undionly.kpxe", "UEFI": "ipxe.efi"}},
		{"kea", "kea-dhcp4", func(t *testing.T) string {
			return `{"Dhcp4": {"interfaces-config": {"interfaces": ["dhcp0"]}, "lease-database": {"type": "memfile", "persist": false},
"subnet4": [{"subnet": "10.0.0.0/24", "pools": [{"pool": "10.0.0.100 - 10.0.0.199"}]}],
` + snippet(t, "Kea, which gives out") + "}}\n"
		}, []string{"-t"}, []string{"-c"}, false,
			map[string]string{"BIOS": "undionly.kpxe", "UEFI": "ipxe.efi",
				"UEFI over HTTP": "http://10.0.0.1:7404/netboot/ipxe.efi"}},
	}
}

// TestDHCPSnippets checks that each server accepts its configuration in docs/netboot.md and, if a
// network can be created, answers firmware as the page describes.
func TestDHCPSnippets(t *testing.T) {
	for _, s := range dhcpServers() {
		t.Run(s.name, func(t *testing.T) {
			program, err := exec.LookPath(s.program)
			if err != nil {
				program = filepath.Join("/usr/sbin", s.program)
			}
			if _, err := os.Stat(program); err != nil {
				t.Skipf("NOT TESTED: %s not found", s.program)
			}
			config := s.config(t)
			file := filepath.Join(t.TempDir(), "conf")
			write := func(config string) {
				if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(strings.ReplaceAll(config, `"dhcp0"`, `"lo"`)) // the interface does not exist yet
			judge := exec.CommandContext(t.Context(), program, append(s.test, file)...)
			judge.Env = ownPlaces(t)
			if out, err := judge.CombinedOutput(); err != nil {
				t.Fatalf("check the configuration with %s: %v\n%s\n%s", s.program, err, out, config)
			}
			if os.Getenv(inside) == "" {
				t.Log("the answers are not tested: run make e2e-dhcp")
				return
			}
			write(config)
			answers(t, s, program, file)
		})
	}
}

// ownPlaces sets directories of its own for Kea.
func ownPlaces(t *testing.T) []string {
	t.Helper()
	return append(os.Environ(), "KEA_PIDFILE_DIR="+t.TempDir(), "KEA_LOCKFILE_DIR=none", "KEA_LOGGER_DESTINATION=stderr")
}

// serverNet runs the server in its own network namespace, with one end of a cable that the test
// moves there.
const serverNet = `until ip link show dhcp0 >/dev/null 2>&1; do sleep 0.1; done; ip link set lo up; ip addr add 10.0.0.1/24 dev dhcp0; ip link set dhcp0 up; exec "$@"`

// answers runs the server at one end of a cable, and sends requests from the other.
func answers(t *testing.T, s dhcpServer, program, file string) {
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"-n", "sh", "-c", serverNet, "sh", program},
		append(s.run, file)...)...)
	cmd.Env = ownPlaces(t)
	said, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait()
		_ = said.Close()
		// It may be gone with the other end.
		_ = exec.CommandContext(context.WithoutCancel(t.Context()), "ip", "link", "del", "dhcp1").Run()
		if text, err := os.ReadFile(said.Name()); err == nil && t.Failed() {
			t.Logf("%s", text)
		}
	}()
	namespaced(t, cmd.Process.Pid)
	for _, line := range []string{"link set lo up", "link add dhcp1 type veth peer name dhcp0",
		fmt.Sprint("link set dhcp0 netns ", cmd.Process.Pid), "addr add 10.0.0.2/24 dev dhcp1", "link set dhcp1 up"} {
		if err := do(t.Context(), "ip", strings.Fields(line)...); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []struct {
		name, class string
		arch        iana.Arch
		ipxe        bool
	}{
		{"BIOS", "PXEClient:Arch:00000:UNDI:002001", iana.INTEL_X86PC, false},
		{"UEFI", "PXEClient:Arch:00007:UNDI:003016", iana.EFI_X86_64, false},
		{"UEFI over HTTP", "HTTPClient:Arch:00016:UNDI:003016", iana.EFI_X86_64_HTTP, false},
		{"iPXE with BIOS", "PXEClient:Arch:00000:UNDI:002001", iana.INTEL_X86PC, true},
		{"iPXE with UEFI", "PXEClient:Arch:00007:UNDI:003016", iana.EFI_X86_64, true},
	} {
		want := s.files[f.name]
		if f.ipxe {
			want = "http://10.0.0.1:7404/api/v1/boot?mac=${mac}"
		}
		if want == "" {
			continue
		}
		offer, err := ask(ctx, f.class, f.arch, f.ipxe)
		if err != nil {
			t.Errorf("%s: %v", f.name, err)
			continue
		}
		if s.proxy && !f.ipxe { // the offer sends firmware to port 4011
			if offer, err = second(ctx, f.class, f.arch); err != nil {
				t.Errorf("%s: request the boot file: %v", f.name, err)
				continue
			}
		}
		if got := bootFile(offer); got != want {
			t.Errorf("%s: got boot file %q, want %q\n%s", f.name, got, want, offer.Summary())
		}
		if class := string(offer.Options.Get(dhcpv4.OptionClassIdentifier)); strings.HasPrefix(f.class, "HTTPClient") &&
			class != "HTTPClient" {
			t.Errorf("%s: got an answer of class %q, want HTTPClient, because firmware ignores others", f.name, class)
		}
	}
}

// namespaced waits until a started process has left this network namespace.
func namespaced(t *testing.T, pid int) {
	t.Helper()
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; {
		its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err == nil && its != own {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("wait for the network namespace of the server: %v", err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the test has ended")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// second sends firmware's second request: to the boot server on port 4011, for the only item of its
// menu (PXE Specification 2.1, 2.2.3).
func second(ctx context.Context, class string, arch iana.Arch) (*dhcpv4.DHCPv4, error) {
	link, err := net.InterfaceByName("dhcp1")
	if err != nil {
		return nil, err
	}
	m, err := dhcpv4.New(dhcpv4.WithHwAddr(link.HardwareAddr), dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest),
		dhcpv4.WithClientIP(net.IPv4(10, 0, 0, 2)),
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier(class)), dhcpv4.WithOption(dhcpv4.OptClientArch(arch)),
		dhcpv4.WithRequestedOptions(dhcpv4.OptionBootfileName, dhcpv4.OptionVendorSpecificInformation),
		dhcpv4.WithGeneric(dhcpv4.OptionClientNetworkInterfaceIdentifier,
			[]byte{1, 3, 16}), dhcpv4.WithGeneric(dhcpv4.OptionClientMachineIdentifier, make([]byte, 17)))
	if err != nil {
		return nil, err
	}
	if arch == iana.INTEL_X86PC {
		m.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, []byte{71, 4, 0x80, 0, 0, 0, 255}))
	}
	c, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp4", "10.0.0.2:68")
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	if _, err := c.WriteTo(m.ToBytes(), &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 4011}); err != nil {
		return nil, err
	}
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return nil, err
	}
	b := make([]byte, 4096)
	n, _, err := c.ReadFrom(b)
	if err != nil {
		return nil, err
	}
	return dhcpv4.FromBytes(b[:n])
}

// bootFile returns the boot file in an answer.
func bootFile(p *dhcpv4.DHCPv4) string {
	if p.BootFileName != "" {
		return p.BootFileName
	}
	return p.BootFileNameOption()
}

// ask sends requests as firmware does, until there is an answer, because the server may still be
// starting.
func ask(ctx context.Context, class string, arch iana.Arch, ipxe bool) (*dhcpv4.DHCPv4, error) {
	link, err := net.InterfaceByName("dhcp1")
	if err != nil {
		return nil, err
	}
	more := []dhcpv4.Modifier{dhcpv4.WithBroadcast(true), dhcpv4.WithOption(dhcpv4.OptClassIdentifier(class)),
		dhcpv4.WithOption(dhcpv4.OptClientArch(arch)),
		dhcpv4.WithRequestedOptions(dhcpv4.OptionBootfileName, dhcpv4.OptionTFTPServerName, dhcpv4.OptionClassIdentifier,
			dhcpv4.OptionVendorSpecificInformation),
		dhcpv4.WithGeneric(dhcpv4.OptionClientNetworkInterfaceIdentifier,
			[]byte{1, 3, 16}), dhcpv4.WithGeneric(dhcpv4.OptionClientMachineIdentifier, make([]byte, 17))}
	if ipxe {
		more = append(more, dhcpv4.WithGeneric(dhcpv4.OptionUserClassInformation, []byte("iPXE")))
	}
	c, err := nclient4.New(link.Name, nclient4.WithTimeout(2*time.Second), nclient4.WithRetry(10))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	offer, err := c.DiscoverOffer(ctx, more...)
	if err != nil {
		return nil, fmt.Errorf("no offer: %w", err)
	}
	return offer, nil
}

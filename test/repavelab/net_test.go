//go:build linux

package repavelab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/test/bmclab"
)

// The network of the lab is a bridge with addresses of this machine and the peers, and a tap for
// each box.
const (
	bridge     = "br0"
	gateway    = "10.77.0.1"
	bootPort   = "7404"
	programDir = "/usr/lib/ipxe"
)

func peerHost(i int) string { return fmt.Sprintf("10.77.0.%d", 11+i) }
func boxHost(i int) string  { return fmt.Sprintf("10.77.0.%d", 21+i) }
func boxMAC(i int) string   { return fmt.Sprintf("52:54:00:77:00:%02x", 1+i) }
func tapName(i int) string  { return fmt.Sprintf("tap%d", i) }

// network creates the network, which ends with the namespace.
func network(t *testing.T, boxes int) {
	t.Helper()
	lines := []string{
		"link set lo up", "link add br0 type bridge forward_delay 0", "addr add " + gateway +
			"/24 dev br0", "addr add fd77::1/64 dev br0 nodad", "link set br0 up",
	}
	for i := range 3 {
		lines = append(lines, "addr add "+peerHost(i)+"/24 dev br0")
	}
	for i := range boxes {
		lines = append(lines, "tuntap add dev "+tapName(i)+" mode tap", "link set "+tapName(i)+" master br0 up")
	}
	for _, line := range lines {
		if err := do(t.Context(), "ip", strings.Fields(line)...); err != nil {
			t.Fatal(err)
		}
	}
}

// ownDHCP reports whether the peers answer firmware themselves, without dnsmasq.
func ownDHCP() bool { return os.Getenv("E2E_REPAVE_DHCP") != "dnsmasq" }

// addresses starts dnsmasq, which assigns addresses to the boxes. It also names their boot files,
// as in docs/netboot.md, if the peers do not.
func addresses(l *bmclab.Lab, t *testing.T, boxes int) {
	t.Helper()
	config := []string{
		"port=0", "interface=" + bridge, "bind-interfaces", "except-interface=lo", "dhcp-authoritative", "log-dhcp",
		"user=root",
		"dhcp-leasefile=" + filepath.Join(l.Dir(), "leases"), "pid-file=" + filepath.Join(l.Dir(), "dnsmasq.pid"),
		"dhcp-range=10.77.0.50,10.77.0.99,255.255.255.0,1h", "dhcp-option=option:router," +
			gateway, "enable-ra", "dhcp-range=fd77::,ra-only",
	}
	for i := range boxes {
		config = append(config, "dhcp-host="+boxMAC(i)+","+boxHost(i))
	}
	if !ownDHCP() {
		config = append(config,
			"dhcp-userclass=set:ipxe,iPXE", "enable-tftp", "tftp-root="+programDir,
			"dhcp-match=set:efi,option:client-arch,7", "dhcp-boot=tag:!ipxe,undionly.kpxe",
			"dhcp-boot=tag:!ipxe,tag:efi,ipxe.efi",
			"dhcp-boot=tag:ipxe,http://"+peerHost(0)+":"+bootPort+"/api/v1/boot?mac=${mac}",
		)
	}
	file := filepath.Join(l.Dir(), "dnsmasq.conf")
	if err := os.WriteFile(file, []byte(strings.Join(config, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Start("dnsmasq.log", "/usr/sbin/dnsmasq", "--keep-in-foreground", "--conf-file="+file, "--log-facility=-")
}

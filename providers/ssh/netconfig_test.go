package sshexec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseNet(t *testing.T) {
	const keyfile = "# ours\n[connection]\ntype=ethernet\n\nid=eth0\ninterface-name=eth0\n[ipv4]\nmethod=auto\n"
	const plan, unit, faces = "network:\n  version: 2\n", "# ours\n[Match]\nName=eth0\n",
		"auto eth0\niface eth0 inet dhcp\n"
	for _, c := range []struct {
		name, in string
		manager  netManager
		files    []netFile
		err      string
	}{
		{"netplan", plan, netplan, []netFile{{"/etc/netplan/90-holdfast.yaml", plan}}, ""},
		{"networkd", unit, networkd, []netFile{{"/etc/systemd/network/10-holdfast.network", unit}}, ""},
		{"ifupdown", faces, ifupdown, []netFile{{"/etc/network/interfaces", faces}}, ""},
		{"several",
			"\n# file: /etc/systemd/network/1-b.netdev\n[NetDev]\n# file: /etc/systemd/network/2-b.network\n[Match]\n", networkd,
			[]netFile{{"/etc/systemd/network/1-b.netdev", "[NetDev]\n"}, {"/etc/systemd/network/2-b.network", "[Match]\n"}}, ""},
		{"NetworkManager", keyfile, networkManager,
			[]netFile{{"/etc/NetworkManager/system-connections/90-holdfast.nmconnection", keyfile}}, ""},
		{"NetworkManager, several", "# file: /etc/NetworkManager/system-connections/a.nmconnection\n" + keyfile,
			networkManager, []netFile{{"/etc/NetworkManager/system-connections/a.nmconnection", keyfile}}, ""},
		{"NetworkManager, no id", "[connection]\ntype=ethernet\n[ipv4]\nid=x\n", "", nil, `no "id="`},
		{"NetworkManager, not a keyfile", "# file: /etc/NetworkManager/system-connections/a\n" + keyfile, "", nil,
			"is not a file of netplan"},
		{"neither", "vlan: 7\n", "", nil, "is not one of netplan"},
		{"empty", "", "", nil, "is not one of netplan"},
		{"bad YAML", "network: [\n", "", nil, "not valid YAML"},
		{"empty network", "network:\n", "", nil, `has no "network:"`},
		{"elsewhere", "# file: /etc/passwd\nx\n", "", nil, "is not a file of netplan"},
		{"up", "# file: /etc/netplan/../passwd.yaml\nx\n", "", nil, "is not a file of netplan"},
		{"two managers", "# file: /etc/netplan/a.yaml\n" + plan + "# file: /etc/network/interfaces\nauto lo\n", "", nil,
			"use one manager"},
		{"twice", "# file: /etc/network/interfaces\n# file: /etc/network/interfaces\n", "", nil, "occurs twice"},
		{"text before", "auto lo\n# file: /etc/network/interfaces\n", "", nil, "before the first line"},
		{"NUL", "network:\x00", "", nil, "NUL"},
		{"many", strings.Repeat("# file: /etc/network/interfaces\n", 101), "", nil, "at most 100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, files, err := parseNet(c.in)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || m != c.manager {
				t.Fatalf("got %s, %v", m, err)
			}
			if diff := cmp.Diff(c.files, files, cmp.AllowUnexported(netFile{})); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func FuzzParseNet(f *testing.F) {
	f.Add("# file: /etc/netplan/a.yaml\nnetwork:\n  version: 2\n")
	f.Add("[Match]\n")
	f.Add("network:\n  a: b\n")
	f.Fuzz(func(t *testing.T, in string) {
		m, files, err := parseNet(in)
		if err != nil {
			return
		}
		for _, file := range files {
			if managerOf(file.path) != m || strings.Contains(file.path, "..") && strings.Contains(file.path, "/../") ||
				strings.ContainsAny(file.path, " \n") {
				t.Errorf("file %q of %s", file.path, m)
			}
		}
	})
}

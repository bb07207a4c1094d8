package facts

import (
	"io/fs"
	"math"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// tree returns a file system of alternating names and texts. A text that begins with "-> " is a
// symbolic link.
func tree(files ...string) fstest.MapFS {
	m := make(fstest.MapFS)
	for i := 0; i < len(files); i += 2 {
		if to, ok := strings.CutPrefix(files[i+1], "-> "); ok {
			m[files[i]] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink}
			continue
		}
		m[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return m
}

func TestCPUs(t *testing.T) {
	const online = "sys/devices/system/cpu/online"
	tests := []struct {
		name string
		fsys fs.FS
		want int // 0: error
	}{
		{"one", tree(online, "0\n"), 1},
		{"eight", tree(online, "0-7\n"), 8},
		{"some switched off", tree(online, "0-2,5,7-8\n"), 6},
		{"no sysfs", tree("proc/cpuinfo", "processor\t: 0\nmodel name\t: x\n\nprocessor\t: 1\n"), 2},
		{"s390x without sysfs", tree("proc/cpuinfo", "vendor_id : IBM/S390\n# processors : 2\n"+
			"processor 0: version = FF,  identification = 1\nprocessor 1: version = FF,  identification = 2\n"), 2},
		{"nonsense in sysfs", tree(online, "7-0", "proc/cpuinfo", "processor : 0\n"), 1},
		{"nothing", tree(), 0},
		{"nothing useful", tree(online, "", "proc/cpuinfo", "Hardware : x\n"), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := CPUs(tt.fsys)
			if got != tt.want || (err != nil) != (tt.want == 0) {
				t.Errorf("CPUs: got %d, %v, want %d", got, err, tt.want)
			}
		})
	}
}

func TestCPUTimes(t *testing.T) {
	tests := []struct {
		text string
		want CPUTimes
		bad  bool
	}{
		// Guest times are included in user.
		{"cpu  100 20 30 1000 50 6 7 8 9 10\ncpu0 1 2 3\n", CPUTimes{Busy: 171, Idle: 1050}, false},
		{"cpu 1 2 3 4", CPUTimes{Busy: 6, Idle: 4}, false}, // Linux 2.4
		{"cpu 1 2 3\n", CPUTimes{}, true},
		{"cpu0 1 2 3 4 5\n", CPUTimes{}, true},
		{"cpu -1 2 3 4 5\n", CPUTimes{}, true},
		{"", CPUTimes{}, true},
	}
	for _, tt := range tests {
		got, err := ReadCPUTimes(tree("proc/stat", tt.text))
		if got != tt.want || (err != nil) != tt.bad {
			t.Errorf("%q: got %+v, %v, want %+v", tt.text, got, err, tt.want)
		}
	}
	if _, err := ReadCPUTimes(tree()); err == nil {
		t.Error("without /proc/stat: no error")
	}
}

func TestUtilization(t *testing.T) {
	tests := []struct {
		now, before CPUTimes
		want        float64
	}{
		{CPUTimes{Busy: 150, Idle: 150}, CPUTimes{Busy: 100, Idle: 100}, 50},
		{CPUTimes{Busy: 150, Idle: 100}, CPUTimes{Busy: 100, Idle: 100}, 100},
		{CPUTimes{Busy: 100, Idle: 200}, CPUTimes{Busy: 100, Idle: 100}, 0},
		{CPUTimes{Busy: 1, Idle: 1}, CPUTimes{Busy: 1, Idle: 1}, 0},
		{CPUTimes{Busy: 10, Idle: 90}, CPUTimes{}, 10},
		{CPUTimes{Busy: 110, Idle: 90}, CPUTimes{Busy: 100, Idle: 100}, 100}, // idle fell
	}
	for _, tt := range tests {
		if got := tt.now.Utilization(tt.before); got != tt.want {
			t.Errorf("%+v since %+v: got %v, want %v", tt.now, tt.before, got, tt.want)
		}
	}
}

func TestMemory(t *testing.T) {
	tests := []struct {
		text string
		want Memory
		used float64
	}{
		{"MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    8388608 kB\n", Memory{16384, 8192}, 50},
		{"MemTotal: 1048576 kB\nMemFree: 262144 kB\nBuffers: 131072 kB\nCached: 131072 kB\n", Memory{1024, 512}, 50},
		{"MemTotal: 1048576 kB\nMemAvailable: 9999999 kB\n", Memory{1024, 1024}, 0},
		{"MemTotal: 1048576 kB\nMemAvailable: x\nMemFree: -5 kB\n", Memory{1024, 0}, 100},
		{"MemTotal: 800001200685275200 kB\n", Memory{781251172544214, 0}, 100}, // found by FuzzMemory
		{"MemTotal: 0 kB\n", Memory{}, 0},
		{"MemTotal\n", Memory{}, 0},
		{"", Memory{}, 0},
	}
	for _, tt := range tests {
		got, err := ReadMemory(tree("proc/meminfo", tt.text))
		if got != tt.want || (err != nil) != (tt.want == Memory{}) || got.Utilization() != tt.used {
			t.Errorf("%q: got %+v (%v %%), %v, want %+v (%v %%)", tt.text, got, got.Utilization(), err, tt.want, tt.used)
		}
	}
	if _, err := ReadMemory(tree()); err == nil {
		t.Error("without /proc/meminfo: no error")
	}
}

func TestBoard(t *testing.T) {
	const dmi = "sys/class/dmi/id/"
	tests := []struct {
		name string
		fsys fs.FS
		want Board
	}{
		{"a server", tree(dmi+"sys_vendor", "Dell Inc.\n", dmi+"product_name", "PowerEdge R750\n", dmi+"product_serial",
			"ABC1234\n",
			dmi+"product_uuid", "4C4C4544-0042-4310-8031-B4C04F333633\n", "sys/firmware/efi/fw_platform_size", "64\n"),
			Board{"Dell Inc.", "PowerEdge R750", "ABC1234", "4c4c4544-0042-4310-8031-b4c04f333633", "uefi"}},
		{"whitebox", tree(dmi+"sys_vendor", "To Be Filled By O.E.M.\n", dmi+"product_name", "System Product Name\n", dmi+
			"product_serial", "Default string\n",
			dmi+"chassis_serial", "0\n", dmi+"board_serial", "MB-77\n", dmi+
				"product_uuid", "00000000-0000-0000-0000-000000000000\n"),
			Board{Serial: "MB-77", BootMode: "bios"}},
		{"not root", tree(dmi+"sys_vendor", "QEMU\n"), Board{Vendor: "QEMU", BootMode: "bios"}},
		{"an ARM board", tree("proc/device-tree/model", "Raspberry Pi 4 Model B\x00", "proc/device-tree/serial-number",
			"10000000abcdef\x00"),
			Board{Model: "Raspberry Pi 4 Model B", Serial: "10000000abcdef"}},
		{"a container", tree(), Board{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, ReadBoard(tt.fsys)); diff != "" {
				t.Errorf("board (-want +got):\n%s", diff)
			}
		})
	}
}

const routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"

func TestDefaultInterface(t *testing.T) {
	const v6 = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
	tests := []struct {
		name, v4, v6, want string
	}{
		{"one", routes +
			"eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n" +
			"eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n", "", "eth0"},
		{"lower metric", routes +
			"wlan0\t00000000\t0\t0003\t0\t0\t600\t00000000\t0\t0\t0\nbond0\t00000000\t0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n",
			"", "bond0"},
		{"half of a default", routes + "tun0\t00000000\t0\t0001\t0\t0\t0\t00000080\t0\t0\t0\n", "", ""},
		{"down and refusing interfaces", routes +
			"a\t00000000\t0\t0002\t0\t0\t0\t00000000\t0\t0\t0\nb\t00000000\t0\t0201\t0\t0\t0\t00000000\t0\t0\t0\n", "", ""},
		{"IPv6 only", routes, v6 + "fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth1\n" +
			v6 + "00000000000000000000000000000000 ffffffff 00000001 00000000 00200200 lo\n", "eth1"},
		{"both", routes + "eth0\t00000000\t0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n", v6 +
			"fe800000000000000000000000000001 00000001 00000001 00000000 00000003 eth1\n", "eth0"},
		{"none", routes, "", ""},
		{"nonsense", "eth0 00000000\n\n" + routes + "x\t00000000\t0\tzz\t0\t0\t0\t00000000\n", "x y\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := DefaultInterface(tree("proc/net/route", tt.v4, "proc/net/ipv6_route", tt.v6)); got != tt.want {
				t.Errorf("DefaultInterface: got %q, want %q", got, tt.want)
			}
		})
	}
	if got := DefaultInterface(tree()); got != "" {
		t.Errorf("without /proc: %q", got)
	}
}

func TestMAC(t *testing.T) {
	fsys := tree("sys/class/net/eth0/address", "AA:BB:CC:00:11:22\n", "sys/class/net/lo/address", "00:00:00:00:00:00\n",
		"sys/class/net/ib0/address", "80:00:02:08:fe:80\n:00\n")
	for name, want := range map[string]string{"eth0": "aa:bb:cc:00:11:22", "lo": "", "ib0": "", "eth9": "", "": "",
		"../../proc": ""} {
		if got := MAC(fsys, name); got != want {
			t.Errorf("MAC(%q): got %q, want %q", name, got, want)
		}
	}
}

func TestPrivateIP(t *testing.T) {
	iface := func(name string, addrs ...string) Interface {
		i := Interface{Name: name}
		for _, a := range addrs {
			i.Addrs = append(i.Addrs, netip.MustParseAddr(a))
		}
		return i
	}
	all := []Interface{
		iface("lo", "127.0.0.1", "::1"), iface("docker0", "172.17.0.1"),
		iface("eth0", "203.0.113.9", "fe80::1", "2001:db8::9"), iface("eth1", "::ffff:10.0.0.9", "fd00::9"),
	}
	tests := []struct {
		name, way, addr, from string
		interfaces            []Interface
	}{
		{"private, on the way out", "eth1", "10.0.0.9", "eth1", all},
		{"public, on the way out", "eth0", "203.0.113.9", "eth0", all},
		{"no way out", "", "172.17.0.1", "docker0", all},
		{"no address on the route", "eth7", "172.17.0.1", "docker0", all},
		{"IPv6 only", "eth0", "fd00::1", "eth0", []Interface{iface("eth0", "fe80::1", "2001:db8::1", "fd00::1")}},
		{"loopback only", "", "", "", all[:1]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			addr, from := PrivateIP(tt.interfaces, tt.way)
			if from != tt.from || addr.IsValid() && addr.String() != tt.addr || addr.IsValid() != (tt.addr != "") {
				t.Errorf("PrivateIP: got %v on %q, want %s on %q", addr, from, tt.addr, tt.from)
			}
		})
	}
}

func TestGPUs(t *testing.T) {
	dev := func(address, class, vendor, driver string) []string {
		dir := "sys/bus/pci/devices/" + address
		files := []string{dir + "/class", class + "\n", dir + "/vendor", vendor + "\n", dir + "/device", "0x2684\n"}
		if driver != "" {
			files = append(files, dir+"/driver", "-> ../../../bus/pci/drivers/"+driver)
		}
		return files
	}
	var files []string
	for _, d := range [][]string{
		dev("0000:01:00.0", "0x030000", "0x10de", "nvidia"),
		dev("0000:01:00.1", "0x040300", "0x10de", "snd_hda_intel"), // its sound
		dev("0000:41:00.0", "0x030200", "0x10de", "vfio-pci"),
		dev("0000:81:00.0", "0x030200", "0x10de", ""),
		dev("0000:81:00.4", "0x030200", "0x10de", "nvidia"), // a virtual function
		dev("0000:00:02.0", "0x030000", "0x8086", "i915"),
		dev("0000:02:00.0", "nonsense", "0x10de", ""),
	} {
		files = append(files, d...)
	}
	files = append(files, "sys/bus/pci/devices/0000:81:00.4/physfn", "-> ../0000:81:00.0")
	files = append(files, "sys/bus/pci/devices/0000:81:00.0/class", "0x030200\n")
	got, err := GPUs(tree(files...))
	if err != nil {
		t.Fatal(err)
	}
	want := []GPU{{"0000:01:00.0", "0x2684", "nvidia"}, {"0000:41:00.0", "0x2684", "vfio-pci"},
		{"0000:81:00.0", "0x2684", ""}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	if !got[1].GivenAway() || got[0].GivenAway() {
		t.Errorf("devices of a VM: got %v, want only the second one", got)
	}
	if got, err := GPUs(tree()); got != nil || err != nil {
		t.Errorf("without PCI: got %v, %v", got, err)
	}
}

// This test reads the machine that it runs on.
func TestThisMachine(t *testing.T) {
	root := os.DirFS("/")
	if n, err := CPUs(root); err != nil || n < 1 {
		t.Errorf("CPUs: got %d, %v", n, err)
	}
	if m, err := ReadMemory(root); err != nil || m.TotalMiB < 64 || m.AvailableMiB < 1 {
		t.Errorf("ReadMemory: got %+v, %v", m, err)
	}
	if c, err := ReadCPUTimes(root); err != nil || c.Busy == 0 {
		t.Errorf("ReadCPUTimes: got %+v, %v", c, err)
	}
	want, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Hostname(root); got != want || err != nil {
		t.Errorf("Hostname: got %q, %v, want %q", got, err, want)
	}
	if _, err := GPUs(root); err != nil {
		t.Error(err)
	}
}

func FuzzCountList(f *testing.F) {
	f.Add("0-3,7")
	f.Add("0-65535,0-65535")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := countList(s); err == nil && (n < 1 || n > maxCPUs) {
			t.Errorf("countList(%q): got %d", s, n)
		}
	})
}

func FuzzCPUTimes(f *testing.F) {
	f.Add("cpu  100 20 30 1000 50 6 7 8 9 10\n",
		"cpu 9223372036854775807 9223372036854775807 9223372036854775807 1 9223372036854775807\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, err := parseCPUTimes(a)
		y, err2 := parseCPUTimes(b)
		if err != nil || err2 != nil {
			return
		}
		if u := x.Utilization(y); math.IsNaN(u) || u < 0 || u > 100 {
			t.Errorf("%q since %q: got %v %%", a, b, u)
		}
	})
}

func FuzzMemory(f *testing.F) {
	f.Add("MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n")
	f.Add("MemTotal: 9223372036854775807 kB\nCached: 9223372036854775807 kB\nBuffers: 9223372036854775807 kB\n")
	f.Fuzz(func(t *testing.T, s string) {
		m, err := parseMemory(s)
		if err != nil {
			return
		}
		if u := m.Utilization(); m.TotalMiB <= 0 || m.AvailableMiB < 0 || u < 0 || u > 100 {
			t.Errorf("%q: %+v, %v %%", s, m, u)
		}
	})
}

func FuzzRoutes(f *testing.F) {
	f.Add(routes + "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")
	f.Add("00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe80 00000400 00000001 00000000 " +
		"00000003 eth1\n")
	f.Fuzz(func(_ *testing.T, s string) {
		parseRoutes(s)
		parseRoutes6(s)
	})
}

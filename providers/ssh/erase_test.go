package sshexec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	sshexec "github.com/holdfast-metal/holdfast/providers/ssh"
)

// disk is a file with data that the script uses as a disk, and its behavior with each tool.
type disk struct {
	name  string
	bytes int64
	ro    bool
	kind  string            // type in lsblk; default disk
	tools map[string]string // effect of a tool, in shell; "$d" is its path
	how   string            // it is attached, as in testdata/local-disks.txt; "-" for what the table leaves out
	lossy bool              // writes are lost
	empty bool
}

// stage creates the disks, and fake tools that know no others. The real disks of this machine
// cannot be reached, because the script gets its list only from lsblk.
func stage(t *testing.T, disks []disk) (dir string, run func(env ...string) (string, string, int)) {
	t.Helper()
	dir = t.TempDir()
	tools := filepath.Join(dir, "tools")
	if err := os.Mkdir(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	list := ""
	answers := map[string]string{}
	for i, d := range disks {
		path := filepath.Join(dir, d.name)
		content := bytes.Repeat([]byte(d.name+" holds data of somebody.\n"), int(d.bytes)/10)[:d.bytes]
		if d.empty {
			clear(content)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		ro, kind := 0, "disk"
		if d.ro {
			ro = 1
		}
		if d.kind != "" {
			kind = d.kind
		}
		list += fmt.Sprintf("%s %s %d %d\n", path, kind, ro, d.bytes)
		attach(t, filepath.Join(tools, "sys"), i, d)
		for tool, does := range d.tools {
			answers[tool] += fmt.Sprintf("*%s*) d=%s; %s ;;\n", d.name, path, does)
		}
		if d.lossy {
			answers["dd"] += fmt.Sprintf("*of=%s*) exit 0 ;;\n", path)
		}
	}
	write := func(tool, text string) {
		if err := os.WriteFile(filepath.Join(tools, tool), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("lsblk", "case \"$*\" in\n*SERIAL*) echo S-1 ;;\n*MOUNTPOINT*) case \"$*\" in */vdsys*) echo / ;; esac "+
		";;\n*) cat <<L\n"+list+"L\n;;\nesac\n")
	write("blockdev", "exit 0\n")
	write("swapoff", "exit 0\n")
	write("sync", "exit 0\n")
	write("sleep", "exit 0\n")
	for _, tool := range []string{"nvme", "hdparm", "blkdiscard"} {
		write(tool, "case \"$*\" in\n"+answers[tool]+"*) exit 1 ;;\nesac\n")
	}
	// A file has no direct I/O, so reads go through the cache.
	write("dd", "case \"$*\" in\n"+answers["dd"]+
		"esac\nfor w; do\nshift\ncase $w in iflag=direct | oflag=direct) ;; *) set -- \"$@\" \"$w\" ;; "+
		"esac\ndone\nexec /bin/dd \"$@\"\n")
	return dir, func(env ...string) (string, string, int) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		cmd := exec.CommandContext(ctx, "/bin/sh", "host/erase.sh")
		cmd.Env = append([]string{"HOLDFAST_ERASE_PATH=" + tools}, env...)
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return out.String(), stderr.String(), cmd.ProcessState.ExitCode()
	}
}

const (
	locked = "printf 'Security:\\n\\t\\tsupported\\n\\t\\tenabled\\n\\t\\tlocked\\n\\tnot\\tfrozen\\nChecksum: " +
		"correct\\n'"
	unreadable = "[ -f $d.open ] || exit 1"
	zeroes     = "truncate -s 0 $d && truncate -s 5000192 $d"
	scrambles  = "head -c 5000192 /dev/urandom >$d"
	unfrozen   = "case \"$*\" in *-I*) printf 'Security:\\n\\tMaster password revision code = " +
		"65534\\n\\t\\tsupported\\n\\tnot\\tenabled\\n\\tnot\\tlocked\\n\\tnot\\tfrozen\\n\\tnot\\texpired: security " +
		"count\\n\\t\\tsupported: enhanced erase\\nChecksum: correct\\n' ;; *set-pass*) : ;; *erase-enhanced*) "
)

func TestEraseScript(t *testing.T) {
	const size = 5000192 // no multiple of 4 MiB
	for name, tc := range map[string]struct {
		disks []disk
		want  []string // lines of the report
		exit  int
	}{
		"no disk": {nil, []string{"done 0 of 0"}, 0},
		"NVMe formats": {[]disk{{name: "nvme0n1", bytes: size, tools: map[string]string{"nvme": scrambles}}},
			[]string{"disk nvme0n1 S-1 erased nvme format, user data erase", "done 1 of 1"}, 0},
		"NVMe only by key": {[]disk{{name: "nvme0n1", bytes: size,
			tools: map[string]string{"nvme": "case \"$*\" in *ses=2*) " + scrambles + " ;; *) exit 1 ;; esac"}}},
			[]string{"disk nvme0n1 S-1 erased nvme format, cryptographic erase", "done 1 of 1"}, 0},
		"NVMe sanitizes": {[]disk{{name: "nvme0n1", bytes: size,
			tools: map[string]string{"nvme": "case \"$*\" in sanitize-log*) echo 'Sanitize Status                        " +
				"(SSTAT) :  0x101' ;; sanitize*) " + scrambles + " ;; *) exit 1 ;; esac"}}},
			[]string{"disk nvme0n1 S-1 erased nvme sanitize, block erase", "done 1 of 1"}, 0},
		"NVMe lies": {[]disk{{name: "nvme0n1", bytes: size, tools: map[string]string{"nvme": "exit 0"}}},
			[]string{"disk nvme0n1 S-1 erased overwritten with zeros", "done 1 of 1"}, 0},
		"ATA erases": {[]disk{{name: "sda", bytes: size, tools: map[string]string{"hdparm": unfrozen + zeroes +
			" ;; *) exit 1 ;; esac"}}},
			[]string{"disk sda S-1 erased ATA enhanced secure erase", "done 1 of 1"}, 0},
		"frozen ATA": {[]disk{{name: "sda", bytes: size,
			tools: map[string]string{"hdparm": strings.Replace(unfrozen, "not\\tfrozen", "\\tfrozen", 1) + zeroes +
				" ;; *) exit 1 ;; esac"}}},
			[]string{"disk sda S-1 erased overwritten with zeros", "done 1 of 1"}, 0},
		"ATA locked by an interrupted erase": {[]disk{{name: "sda", bytes: size,
			tools: map[string]string{"dd": unreadable, "hdparm": "case \"$*\" in *-I*) [ -f $d.open ] || { " + locked +
				"; exit 0; } ;; *security-unlock\\ holdfast*) : >$d.open ;; *disable*) exit 0 ;; esac; " + unfrozen + zeroes +
				" ;; *) exit 1 ;; esac"}}},
			[]string{"disk sda S-1 erased ATA enhanced secure erase", "done 1 of 1"}, 0},
		"ATA locked by another user": {[]disk{{name: "sda", bytes: size,
			tools: map[string]string{"dd": unreadable, "hdparm": "case \"$*\" in *-I*) " + locked + " ;; *) exit 1 ;; esac"}}},
			[]string{"disk sda S-1 failed it is locked, and not with our password (holdfast) or frozen by the firmware; " +
				"it cannot be read", "done 0 of 1"}, 1},
		"discards": {[]disk{{name: "vda", bytes: size,
			tools: map[string]string{"blkdiscard": "case \"$*\" in *-s*) exit 1 ;; *) " + zeroes + " ;; esac"}}},
			[]string{"disk vda S-1 erased discard, read back as zeros", "done 1 of 1"}, 0},
		"discards, to no effect": {[]disk{{name: "vda", bytes: size, tools: map[string]string{"blkdiscard": "exit 0"}}},
			[]string{"disk vda S-1 erased overwritten with zeros", "done 1 of 1"}, 0},
		"overwritten": {[]disk{{name: "vda", bytes: size}, {name: "vdb", bytes: 9 << 20}, {name: "vdc", bytes: 1 << 20}},
			[]string{"disk vda S-1 erased overwritten with zeros", "disk vdb S-1 erased overwritten with zeros",
				"disk vdc S-1 erased overwritten with zeros", "done 3 of 3"}, 0},
		"empty": {[]disk{{name: "vda", bytes: size, empty: true}},
			[]string{"disk vda S-1 erased overwritten with zeros", "done 1 of 1"}, 0},
		"lost writes": {[]disk{{name: "vda", bytes: size, lossy: true}, {name: "vdb", bytes: size}},
			[]string{"disk vda S-1 failed overwritten with zeros did not take; it could not be overwritten",
				"disk vdb S-1 erased overwritten with zeros", "done 1 of 2"}, 1},
		"cannot be written": {[]disk{{name: "vda", bytes: size, ro: true}},
			[]string{"disk vda S-1 failed it cannot be written", "done 0 of 1"}, 1},
		"no disks": {[]disk{{name: "sr0", bytes: size, kind: "rom"}, {name: "loop0", bytes: size, kind: "loop"},
			{name: "zram0", bytes: size}, {name: "vda", bytes: size}}, []string{"disk vda S-1 erased overwritten with zeros",
			"done 1 of 1"}, 0},
		"eMMC": {[]disk{{name: "mmcblk0", bytes: size}, {name: "mmcblk0boot0", bytes: size, ro: true},
			{name: "mmcblk0boot1", bytes: size, ro: true}, {name: "mmcblk0rpmb", bytes: size}},
			[]string{"disk mmcblk0 S-1 erased overwritten with zeros", "done 1 of 1"}, 0},
		"no local disk": {[]disk{{name: "sda", bytes: size, how: "ib_srp"}},
			[]string{"left sda S-1 it is not known to be local (driver ib_srp): others may use it", "done 0 of 0"}, 1},
		"the system's last": {[]disk{{name: "vdsys", bytes: size}, {name: "vdb", bytes: size}},
			[]string{"disk vdb S-1 erased overwritten with zeros", "disk vdsys S-1 erased overwritten with zeros",
				"done 2 of 2"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, run := stage(t, tc.disks)
			out, stderr, exit := run()
			want := "holdfast-erase " + strings.Join(tc.want, "\nholdfast-erase ") + "\n"
			if diff := cmp.Diff(want, out); diff != "" || exit != tc.exit {
				t.Errorf("got exit %d, want %d; report (-want +got):\n%s\nstderr:\n%s", exit, tc.exit, diff, stderr)
			}
			report := providers.ReadEraseReport(out)
			if report.Complete != (tc.exit == 0) && len(report.Disks) > 0 {
				t.Errorf("complete report: got %v, want %v", report.Complete, tc.exit == 0)
			}
			for _, d := range tc.disks {
				if named := slices.ContainsFunc(report.Disks,
					func(r providers.ErasedDisk) bool { return r.Name == d.name }); !named && !d.empty {
					if left, err := os.ReadFile(filepath.Join(dir, d.name)); err != nil ||
						!bytes.Contains(left, []byte("data of somebody")) {
						t.Errorf("disk %s outside of the report: got it changed: %v", d.name, err)
					}
				}
			}
			for _, d := range report.Disks {
				left, err := os.ReadFile(filepath.Join(dir, d.Name))
				if err != nil {
					t.Fatal(err)
				}
				if there := bytes.Contains(left, []byte("data of somebody")); there == d.Erased {
					t.Errorf("disk %s: got erased %v in the report, and old data %v", d.Name, d.Erased, there)
				}
				if d.Erased && int64(len(left)) < 1<<20 {
					t.Errorf("disk %s: got %d remaining bytes", d.Name, len(left))
				}
			}
		})
	}
}

// attach creates the entries of a disk in /sys.
func attach(t *testing.T, sys string, host int, d disk) {
	t.Helper()
	put := func(path, text string) {
		path = filepath.Join(sys, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	how, device := d.how, "block/"+d.name+"/device/"
	switch {
	case how == "" && strings.HasPrefix(d.name, "sd"):
		how = "ahci"
	case how == "" && strings.HasPrefix(d.name, "nvme"):
		how = "pcie"
	case how == "" || how == "-":
		return
	}
	if strings.HasPrefix(d.name, "nvme") {
		if below, ok := strings.CutPrefix(how, "multipath/"); ok {
			how, device = below, device+"nvme7/"
		}
		put(device+"transport", how)
		return
	}
	driver, initiator := strings.CutSuffix(how, "+initiator")
	put(fmt.Sprintf("%sscsi_device/%d:0:1:0/uevent", device, host), "")
	put(fmt.Sprintf("class/scsi_host/host%d/proc_name", host), driver)
	put(fmt.Sprintf("class/sas_device/end_device-%d:0/initiator_port_protocols", host), "none")
	if initiator {
		put(fmt.Sprintf("class/sas_device/end_device-%d:1/initiator_port_protocols", host), "smp, stp, ssp")
	}
}

// TestEraseOnlyLocalDisks checks that the script erases the local disks of the table that it shares
// with the installer, and lists the others.
func TestEraseOnlyLocalDisks(t *testing.T) {
	table, err := os.ReadFile("testdata/local-disks.txt")
	if err != nil {
		t.Fatal(err)
	}
	var disks []disk
	var want providers.EraseReport
	for l := range strings.Lines(string(table)) {
		fields := strings.Split(strings.TrimSpace(l), "; ")
		if len(fields) != 3 {
			continue
		}
		d := disk{name: fields[0], how: fields[1], bytes: 1 << 20}
		if d.how == "" {
			d.how = "-"
		}
		disks = append(disks, d)
		if why := fields[2]; why != "local" {
			want.Left = append(want.Left,
				providers.LeftDisk{Name: d.name, Serial: "S-1", Why: "it is not known to be local (" + why +
					"): others may use it"})
			continue
		}
		want.Disks = append(want.Disks, providers.ErasedDisk{Name: d.name, Serial: "S-1", Erased: true,
			How: "overwritten with zeros"})
	}
	want.Complete = true
	if len(want.Disks) < 5 || len(want.Left) < 5 {
		t.Fatalf("table: got %d local disks and %d others, want at least 5 of each", len(want.Disks), len(want.Left))
	}
	dir, run := stage(t, disks)
	out, stderr, exit := run()
	if diff := cmp.Diff(want, providers.ReadEraseReport(out)); diff != "" || exit != 0 {
		t.Errorf("got exit %d; report (-want +got):\n%s\nstderr:\n%s", exit, diff, stderr)
	}
	for _, d := range want.Left {
		if left, err := os.ReadFile(filepath.Join(dir, d.Name)); err != nil ||
			!bytes.Contains(left, []byte("data of somebody")) {
			t.Errorf("disk %s: got it changed: %v", d.Name, err)
		}
	}
}

// The script erases nothing on another host than the machine's.
func TestEraseOfWrongHost(t *testing.T) {
	dir, run := stage(t, []disk{{name: "vda", bytes: 2 << 20}})
	out, stderr, exit := run("HOLDFAST_MACS=02:00:00:00:00:01 02:00:00:00:00:02")
	if exit != 4 || out != "" || !strings.Contains(stderr, "nothing was erased") {
		t.Errorf("got exit %d, %q, %q", exit, out, stderr)
	}
	if left, err := os.ReadFile(filepath.Join(dir, "vda")); err != nil ||
		!bytes.Contains(left, []byte("data of somebody")) {
		t.Errorf("got a changed disk: %v", err)
	}

	// Addresses of no device prove nothing.
	for name, address := range map[string]string{"lo": "00:00:00:00:00:00", "docker0": "02:42:00:00:00:01",
		"eth0": "02:00:00:00:00:09", "tunl0": "ff:ff:ff:ff:ff:ff"} {
		card := filepath.Join(dir, "tools/sys/class/net", name)
		if name == "eth0" {
			card = filepath.Join(card, "device")
		}
		if err := os.MkdirAll(card, 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "tools/sys/class/net", name, "address")
		if err := os.WriteFile(file, []byte(address+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, stderr, exit = run("HOLDFAST_MACS=00:00:00:00:00:00 02:42:00:00:00:01 ff:ff:ff:ff:ff:ff 01:00:5e:00:00:01")
	if exit != 4 || out != "" || !strings.Contains(stderr, "nothing was erased") {
		t.Errorf("addresses of no device: got exit %d, %q, %q", exit, out, stderr)
	}
	if _, stderr, exit = run("HOLDFAST_MACS=00:00:00:00:00:00 02:00:00:00:00:09"); exit == 4 {
		t.Errorf("an address of a device: got exit %d, %q", exit, stderr)
	}

	p := newProvider(t, sshexec.Config{}, logins{},
		sshexec.NewPinnedInMemory(map[string][]string{"m-pinned": {"ssh-ed25519 AAAA"}}))
	for id, want := range map[string]string{"m-unknown": "no host key is pinned",
		"m-pinned": "neither a host key nor a MAC address"} {
		m := &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{SshEndpoint: "192.0.2.1"}}
		err := p.Erase(t.Context(), providers.Op{RunID: "r", Step: "s", Attempt: 1}, m, time.Minute)
		if providers.ClassOf(err) != providers.Unsupported || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a refusal: %s", id, err, want)
		}
	}
}

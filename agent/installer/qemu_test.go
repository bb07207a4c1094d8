//go:build linux

package installer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/agent/installer/installtest"
)

const largeDisk = 96 * mib

// labPeer serves an image for the machines of the lab.
func labPeer(t *testing.T, plain []byte, rule string) *installtest.Peer {
	t.Helper()
	p := &installtest.Peer{Image: pack(t, plain)}
	p.Order = p.Standard("debian-13", "ZSTD", rule)
	return p
}

// rootFS returns the root of an installed disk as a file, for debugfs and e2fsck.
func rootFS(t *testing.T, disk []byte, end int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "root.img")
	if err := os.WriteFile(name, disk[rootStart:end], 0o600); err != nil {
		t.Fatal(err)
	}
	sh(t, "e2fsck", "-f", "-n", name)
	return name
}

func cat(t *testing.T, fs, name string) string {
	t.Helper()
	return sh(t, "debugfs", "-R", "cat "+name, fs)
}

// checkRoot compares the files of a machine with its order.
func checkRoot(t *testing.T, fs string, p *installtest.Peer) {
	t.Helper()
	got := map[string]string{}
	want := map[string]string{
		"/etc/hostname": "node-1\n", "/etc/machine-id": "", "/usr/bin/program": strings.Repeat("a program ",
			100000), "/etc/os-release": "ID=lab\n",
		"/root/.ssh/authorized_keys":                 "ssh-ed25519 AAAA operator\n",
		"/var/lib/cloud/seed/nocloud/user-data":      "#cloud-config\nusers: [default]\n",
		"/var/lib/cloud/seed/nocloud/network-config": "version: 2\n",
		"/var/lib/cloud/seed/nocloud/meta-data":      "instance-id: \"m-1-run-1-1\"\nlocal-hostname: \"node-1\"\n",
		"/etc/ssh/ssh_host_ed25519_key.pub":          p.Last().HostKeys[0] + "\n",
		"/etc/ssh/ssh_host_rsa_key":                  "",
	}
	for name := range want {
		got[name] = cat(t, fs, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files of the root file system (-want +got):\n%s", diff)
	}
	// The reported key must be the public half of sshd's key.
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(cat(t, fs, "/etc/ssh/ssh_host_ed25519_key")), 0o600); err != nil {
		t.Fatal(err)
	}
	if public := strings.TrimSpace(sh(t, "ssh-keygen", "-y", "-f", key)); public != p.Last().HostKeys[0] {
		t.Errorf("host key: got %q in the report, %q on the disk", p.Last().HostKeys[0], public)
	}
}

// The correct one of two disks is written, over a network that breaks meanwhile.
func TestQEMUInstall(t *testing.T) {
	lab(t)
	plain := osImage(t, "mbr")
	p := labPeer(t, plain, "serial=DISK-B")
	p.Cuts, p.CutAt = 1, len(p.Image)/2
	other, target := medium(t, largeDisk), medium(t, largeDisk)
	box(t, p, drive{file: other, serial: "DISK-A"}, drive{file: target, serial: "DISK-B"})

	if diff := cmp.Diff([]string{"started", "progress", "complete"}, p.Statuses()); diff != "" {
		t.Fatalf("reports (-want +got):\n%s\n%+v", diff, p.Last())
	}
	first := p.Reports()[0]
	if first.IPAddress != "10.0.2.15" || len(first.Inventory["disks"].([]any)) != 2 ||
		first.Inventory["memory_mib"] == nil {
		t.Errorf("got first report %+v", first)
	}
	if got := p.Ranges(); len(got) != 2 || got[1] != fmt.Sprintf("bytes=%d-", len(p.Image)/2) {
		t.Errorf("got ranges %q, want the second half after the cut", got)
	}
	for _, want := range []string{"disk chosen", "download interrupted", "root file system found",
		"installation complete"} {
		if !strings.Contains(p.Log(), want) {
			t.Errorf("log: got no %q:\n%s", want, p.Log())
		}
	}
	if strings.Contains(p.Log(), installtest.Token) {
		t.Error("got the token in the log")
	}
	disk := read(t, target)
	want := bytes.Clone(plain[:rootStart])
	binary.LittleEndian.PutUint32(want[446+16+12:], (largeDisk-rootStart)/512) // the root partition has grown
	if !bytes.Equal(disk[:rootStart], want) {
		t.Error("got other bytes before the root than in the image")
	}
	fs := rootFS(t, disk, largeDisk)
	checkRoot(t, fs, p)
	if super := disk[rootStart+1024:]; uint64(binary.LittleEndian.Uint32(super[4:]))<<(10+
		binary.LittleEndian.Uint32(super[24:])) < largeDisk-rootStart-mib {
		t.Error("got a root file system that has not grown")
	}
	if !bytes.Equal(read(t, other), bytes.Repeat([]byte{0x5a}, largeDisk)) {
		t.Error("got a write to the other disk")
	}
}

// An NVMe disk is formatted first if that was ordered. Its GPT extends to its end.
func TestQEMUWipesNVMe(t *testing.T) {
	lab(t)
	plain := osImage(t, "gpt")
	p := labPeer(t, plain, "model=QEMU*,rotational=false")
	p.Order["wipe"] = true
	target := medium(t, largeDisk)
	box(t, p, drive{file: target, serial: "NVME-1", nvme: true})
	last := p.Last()
	if last.Status != "complete" {
		t.Fatalf("got last report %+v", last)
	}
	wiped := last.Inventory["wiped"].([]any)[0].(map[string]any)
	if wiped["disk"] != "nvme0n1" || wiped["method"] != "nvme-format+zeros" || wiped["error"] != nil {
		t.Errorf("got wipe %v, want an NVMe format", wiped)
	}
	disk := read(t, target)
	if bytes.Contains(disk, bytes.Repeat([]byte{0x5a}, 64)) {
		t.Error("got remaining old data")
	}
	if !bytes.Equal(disk[noiseStart:rootStart], plain[noiseStart:rootStart]) {
		t.Error("got other bytes before the root than in the image")
	}
	f, err := os.OpenFile(target, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	table, err := gpt.Read(f, 512, 512)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Verify(f, largeDisk); err != nil || table.RecoveredFromBackup {
		t.Errorf("GPT: %v, from its copy: %v", err, table.RecoveredFromBackup)
	}
	root := table.Partitions[1]
	if root.End <= (rootStart+rootSize)/512 {
		t.Errorf("got a root that has not grown: %+v", root)
	}
	checkRoot(t, rootFS(t, disk, int(root.End+1)*512), p)
}

// The power is cut when half of the image has arrived and part of it is on the disk. Then the disk
// cannot boot, neither the old data nor half of an image. The next attempt installs all of it.
func TestQEMUPowerLost(t *testing.T) {
	lab(t)
	plain := osImage(t, "mbr")
	p := labPeer(t, plain, "")
	p.Cuts, p.CutAt = 1, len(p.Image)/2
	var asked atomic.Bool
	p.Refuse = func(r *http.Request) int {
		if r.Header.Get("Range") == "" {
			return 0
		}
		asked.Store(true) // for the second half
		return http.StatusServiceUnavailable
	}
	target := medium(t, largeDisk)
	powered(t, p, func() bool {
		// the kernel writes at any time
		return asked.Load() && !bytes.Equal(read(t, target)[noiseStart:noiseStart+noiseSize],
			bytes.Repeat([]byte{0x5a}, noiseSize))
	}, drive{file: target, serial: "DISK-A"})
	if got := p.Last().Status; got != "started" && got != "progress" {
		t.Errorf("got last report %+v, want an installation in progress", p.Last())
	}
	disk := read(t, target)
	if !bytes.Equal(disk[:mib], make([]byte, mib)) {
		t.Error("got a bootable disk")
	}
	if bytes.Equal(disk[:rootStart+rootSize], plain[:rootStart+rootSize]) {
		t.Error("the image is complete: nothing was tested")
	}
	retry := labPeer(t, plain, "")
	box(t, retry, drive{file: target, serial: "DISK-A"})
	if diff := cmp.Diff([]string{"started", "progress", "complete"}, retry.Statuses()); diff != "" {
		t.Fatalf("reports of the next attempt (-want +got):\n%s", diff)
	}
	checkRoot(t, rootFS(t, read(t, target), largeDisk), retry)
}

func TestQEMUFails(t *testing.T) {
	lab(t)
	plain := osImage(t, "mbr")
	tests := []struct {
		name   string
		rule   string
		change func(*installtest.Peer)
		disks  []int // sizes
		want   string
		left   bool // the disks are unchanged
	}{
		{"wrong checksum", "", func(p *installtest.Peer) {
			p.Order["image"].(map[string]any)["sha256"] = strings.Repeat("0",
				64)
		}, []int{largeDisk},
			"checksum of image debian-13 is ", false},
		{"disk too small", "", nil, []int{16 * mib},
			"needs a disk of 30408704 bytes (30 MB) and this one has 16777216 (16 MB): nothing was written", true},
		{"two disks that match", "min_size=1M", nil, []int{largeDisk, largeDisk},
			"2 disks qualify and nothing was written: vda (100 MB, serial DISK-0, rotational); vdb (100 MB, serial " +
				"DISK-1, rotational)", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := labPeer(t, plain, tt.rule)
			if tt.change != nil {
				tt.change(p)
			}
			var drives []drive
			for i, size := range tt.disks {
				drives = append(drives, drive{file: medium(t, size), serial: fmt.Sprintf("DISK-%d", i)})
			}
			box(t, p, drives...)
			if last := p.Last(); last.Status != "failed" || !strings.Contains(last.Error, tt.want) {
				t.Errorf("got last report %+v\nwant %q", last, tt.want)
			}
			for i, d := range drives {
				disk := read(t, d.file)
				if left := bytes.Equal(disk, bytes.Repeat([]byte{0x5a}, tt.disks[i])); left != tt.left {
					t.Errorf("disk %d: got unchanged %v, want %v", i, left, tt.left)
				}
				if !tt.left && !bytes.Equal(disk[:mib], make([]byte, mib)) {
					t.Errorf("disk %d: got a bootable disk", i)
				}
			}
		})
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

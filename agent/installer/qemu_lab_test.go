//go:build linux

package installer

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/klauspost/compress/zstd"

	"github.com/holdfast-metal/holdfast/agent/installer/installtest"
)

const (
	mib        = 1 << 20
	noiseStart = 1 * mib // a partition that the installer must not change
	noiseSize  = 4 * mib
	rootStart  = 5 * mib
	rootSize   = 24 * mib
	labImage   = rootStart + rootSize + mib
	bootLimit  = 4 * time.Minute // a busy machine without KVM
)

// lab skips a test unless it was requested, and installs missing programs.
func lab(t *testing.T) {
	t.Helper()
	if os.Getenv("E2E_INSTALLER") == "" {
		t.Skip("NOT TESTED: boots machines in QEMU: run make e2e-installer")
	}
	var missing []string
	for program, pkg := range map[string]string{"qemu-system-x86_64": "qemu-system-x86", "mkfs.ext4": "e2fsprogs",
		"debugfs": "e2fsprogs", "mkfs.xfs": "xfsprogs", "mkfs.btrfs": "btrfs-progs", "mkfs.vfat": "dosfstools",
		"mcopy": "mtools", "/usr/share/OVMF/OVMF_CODE.fd": "ovmf"} {
		_, err := exec.LookPath(program)
		if filepath.IsAbs(program) {
			_, err = os.Stat(program)
		}
		if err != nil {
			missing = append(missing, pkg)
		}
	}
	if len(missing) == 0 {
		return
	}
	if os.Geteuid() != 0 {
		t.Fatalf("missing: %s: install them, or run this as root", missing)
	}
	sh(t, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends"},
		missing...)...)
}

// sh runs a program and returns its output.
func sh(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.Output()
	if err != nil {
		text := ""
		if e := (*exec.ExitError)(nil); asExit(err, &e) {
			text = string(e.Stderr)
		}
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, text)
	}
	return string(out)
}

func asExit(err error, e **exec.ExitError) bool {
	x, ok := err.(*exec.ExitError) //nolint:errorlint // os/exec does not wrap it
	*e = x
	return ok
}

// osImage returns a disk image: boot code, a partition of noise, and an ext4 root like that of a
// cloud image.
func osImage(t *testing.T, table string) []byte {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"etc/os-release": "ID=lab\n", "etc/hostname": "golden\n", "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
		"etc/cloud/cloud.cfg":      "{}\n",
		"etc/ssh/ssh_host_rsa_key": "golden\n", "usr/bin/program": strings.Repeat("a program ", 100000), "root/.keep": "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	part := filepath.Join(t.TempDir(), "root.img")
	sh(t, "mkfs.ext4", "-q", "-F", "-L", "root", "-d", dir, part, fmt.Sprintf("%dM", rootSize/mib))
	root, err := os.ReadFile(part)
	if err != nil {
		t.Fatal(err)
	}
	image := make([]byte, labImage)
	_, _ = rand.NewChaCha8([32]byte{9}).Read(image[noiseStart : noiseStart+noiseSize])
	copy(image[rootStart:], root)
	if table == "gpt" {
		image = withGPT(t, image)
	} else {
		image[510], image[511] = 0x55, 0xaa
		for i, p := range [][3]uint32{{0xda, noiseStart, noiseSize}, {0x83, rootStart, rootSize}} {
			e := image[446+16*i:]
			e[4] = byte(p[0])
			binary.LittleEndian.PutUint32(e[8:], p[1]/512)
			binary.LittleEndian.PutUint32(e[12:], p[2]/512)
		}
	}
	copy(image, "boot code")
	return image
}

func withGPT(t *testing.T, image []byte) []byte {
	t.Helper()
	name := filepath.Join(t.TempDir(), "gpt.img")
	if err := os.WriteFile(name, image, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	table := &gpt.Table{ProtectiveMBR: true, LogicalSectorSize: 512, PhysicalSectorSize: 512, Partitions: []*gpt.Partition{
		{Index: 1, Start: noiseStart / 512, End: (noiseStart+noiseSize)/512 - 1, Type: gpt.BIOSBoot, Name: "noise"},
		{Index: 2, Start: rootStart / 512, End: (rootStart+rootSize)/512 - 1, Type: gpt.LinuxFilesystem, Name: "root"},
	}}
	if err := table.Write(f, labImage); err != nil {
		t.Fatal(err)
	}
	image, err = os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// pack compresses an image as a stream without its size.
func pack(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// medium creates a disk file that is full of old data.
func medium(t *testing.T, size int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(name, bytes.Repeat([]byte{0x5a}, size), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// drive is a disk of a machine.
type drive struct {
	file, serial string
	nvme         bool
}

// box boots a machine with these disks from the netboot image, and blocks until it has restarted,
// or has reported the end of the installation.
func box(t *testing.T, p *installtest.Peer, drives ...drive) {
	t.Helper()
	powered(t, p, nil, drives...)
}

// powered is like box, until goes, which is called ten times per second, turns the power off.
func powered(t *testing.T, p *installtest.Peer, goes func() bool, drives ...drive) {
	t.Helper()
	poweredWith(t, p, goes, nil, drives...)
}

// poweredWith is like powered, with further arguments of QEMU.
func poweredWith(t *testing.T, p *installtest.Peer, goes func() bool, more []string, drives ...drive) {
	t.Helper()
	// The machine reaches the loopback of its host as 10.0.2.2, and gets its address from QEMU's
	// DHCP server.
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	netboot := filepath.Join("..", "..", "bin", "netboot")
	serial := filepath.Join(t.TempDir(), "serial.log")
	args := []string{
		"-accel", "tcg,tb-size=128", "-m", "512", "-smp", "1", "-display", "none", "-monitor", "none", "-no-reboot",
		"-serial", "file:" + serial,
		"-kernel", filepath.Join(netboot, "vmlinuz"), "-initrd", filepath.Join(netboot, "installer.cpio.gz"),
		"-append", fmt.Sprintf("console=ttyS0 panic=-1 quiet ip=dhcp BOOTIF=01-52-54-00-12-34-56 "+
			"holdfast.url=http://10.0.2.2:%s holdfast.token=%s", port, installtest.Token),
		"-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0,mac=52:54:00:12:34:56,romfile=",
	}
	args = append(args, more...)
	for i, d := range drives {
		device := fmt.Sprintf("virtio-blk-pci,drive=d%d,serial=%s", i, d.serial)
		if d.nvme {
			device = fmt.Sprintf("nvme,drive=d%d,serial=%s", i, d.serial)
		}
		args = append(args, "-drive", fmt.Sprintf("file=%s,if=none,id=d%d,format=raw,cache=unsafe", d.file, i), "-device",
			device)
	}
	ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
	defer cancel()
	start := time.Now()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the reports count
	}()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(100 * time.Millisecond):
		}
		if running && goes != nil && goes() {
			cancel()
			<-ended
			t.Logf("%v, and the power went after %s", p.Statuses(), time.Since(start).Round(100*time.Millisecond))
			return
		}
		// After a failure, the machine waits half a minute for an operator at its console.
		if p.Last().Status == "failed" && strings.Contains(p.Log(), "installation failed") {
			cancel()
			<-ended
			running = false
		}
	}
	t.Logf("%v after %s", p.Statuses(), time.Since(start).Round(100*time.Millisecond))
	if wrong := p.Wrong(); len(wrong) > 0 {
		t.Errorf("got violations of the contract: %q", wrong)
	}
	if t.Failed() || p.Last().Status != "complete" && p.Last().Status != "failed" {
		text, _ := os.ReadFile(serial)
		t.Fatalf("got last report %+v\n%s\n%s", p.Last(), stderr.Bytes(), text[max(0, len(text)-6000):])
	}
}

//go:build linux

package installer

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/holdfast-metal/holdfast/agent/installer/installtest"
	"github.com/holdfast-metal/holdfast/cluster/freeport"
)

// A root file system in a tar is unpacked, made bootable by its own GRUB, and boots with both kinds
// of firmware as the ordered machine.
func TestTarBoots(t *testing.T) {
	if os.Getenv("E2E_TAR") == "" {
		t.Skip("NOT TESTED: boots machines in QEMU: run make e2e-tar")
	}
	t.Setenv("E2E_INSTALLER", "1")
	lab(t)
	archive := rootArchive(t)
	for _, name := range []string{"bios", "uefi"} {
		t.Run(name, func(t *testing.T) {
			_, private, err := ed25519.GenerateKey(nil)
			if err != nil {
				t.Fatal(err)
			}
			operator, err := ssh.NewSignerFromKey(private)
			if err != nil {
				t.Fatal(err)
			}
			// The download is resumed during the unpacking.
			p := &installtest.Peer{Image: archive, Cuts: 1, CutAt: len(archive) / 2}
			p.Order = p.Standard("debian-tar", "ZSTD", "")
			p.Order["image"].(map[string]any)["format"] = "TAR"
			p.Order["authorized_keys"] = []string{strings.TrimSpace(string(ssh.MarshalAuthorizedKey(operator.PublicKey())))}
			p.Order["cloud_init"] = map[string]any{"user_data": "#cloud-config\ndisable_root: false\n"}
			var firmware []string
			if name == "uefi" {
				_, firmware = uefi(t)
			}
			target := drive{file: sparse(t, 3<<30), serial: "DISK-A"}
			poweredWith(t, p, nil, firmware, target)
			if last := p.Last(); last.Status != "complete" || len(last.HostKeys) != 1 {
				t.Fatalf("got last report %+v\n%s", last, p.Log())
			}
			for _, want := range []string{"download interrupted", "root file system unpacked", "target=i386-pc",
				"target=x86_64-efi"} {
				if !strings.Contains(p.Log(), want) {
					t.Errorf("log: got no %q:\n%s", want, p.Log())
				}
			}
			if entry := strings.Contains(p.Log(), "boot entry created"); entry != (name == "uefi") {
				t.Errorf("got a boot entry: %v\n%s", entry, p.Log())
			}
			booted(t, target, firmware, p.Last().HostKeys[0], operator, name)
			if name == "bios" { // move the disk to a machine with UEFI
				_, firmware = uefi(t)
				booted(t, target, firmware, p.Last().HostKeys[0], operator, "uefi")
			}
		})
	}
}

// rootArchive returns the archive of test/repavelab, which is built if needed.
func rootArchive(t *testing.T) []byte {
	t.Helper()
	dir := os.Getenv("E2E_REPAVE_CACHE")
	if dir == "" {
		dir = "/var/cache/holdfast/repave"
	}
	name := filepath.Join(dir, "root.tar.zst")
	if _, err := os.Stat(name); err != nil {
		if os.Geteuid() != 0 {
			t.Fatal("NOT TESTED: creates a root file system, which requires root")
		}
		sh(t, "../../test/repavelab/tar.sh", dir)
	}
	return read(t, name)
}

// sparse creates a disk file with old data at its start.
func sparse(t *testing.T, size int64) string {
	t.Helper()
	name := medium(t, 8*mib)
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
	return name
}

// booted boots a machine from its disk alone, and logs in over SSH. The machine must have the
// reported host key.
func booted(t *testing.T, d drive, firmware []string, hostKey string, operator ssh.Signer, mode string) {
	t.Helper()
	ports, err := freeport.Claim(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ports.Release() })
	addr := ports.Address("127.0.0.1")
	serial := filepath.Join(t.TempDir(), "boot.log")
	args := append([]string{
		"-accel", "tcg,tb-size=128", "-m", "768", "-smp", "1", "-display", "none", "-monitor", "none", "-no-reboot",
		"-serial", "file:" + serial,
		"-netdev", "user,id=n0,hostfwd=tcp:" + addr + "-:22", "-device", "virtio-net-pci,netdev=n0,romfile=",
		"-drive", "file=" + d.file +
			",if=none,id=d0,format=raw,cache=unsafe", "-device", "virtio-blk-pci,drive=d0,bootindex=0,serial=" + d.serial,
	}, firmware...)
	ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
	defer cancel()
	start := time.Now()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // killed
	}()
	want, _, _, _, err := ssh.ParseAuthorizedKey([]byte(hostKey))
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ClientConfig{User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(operator)},
		HostKeyCallback:   ssh.FixedHostKey(want),
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519}, Timeout: 20 * time.Second}
	var client *ssh.Client
	for {
		if client, err = ssh.Dial("tcp", addr, config); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			text, _ := os.ReadFile(serial)
			t.Fatalf("no login by %s after %s: %v\n%s\n%s", mode, time.Since(start), err, stderr.Bytes(),
				text[max(0, len(text)-4000):])
		case <-time.After(500 * time.Millisecond):
		}
	}
	t.Logf("logged in by %s, %s after power on", mode, time.Since(start).Round(100*time.Millisecond))
	defer func() { _ = client.Close() }()
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	out, err := session.CombinedOutput(`set -e
for i in $(seq 120); do test -f /var/lib/cloud/instance/boot-finished && break; sleep 1; done
test -d /sys/firmware/efi && echo uefi || echo bios
hostname; stat -c '%a %U' /usr/bin/su; for at in / /boot/efi /srv; do findmnt -no FSTYPE $at; done | xargs
test "$(findmnt -no UUID /)" = "$(sed -n 's/^UUID=\([^ ]*\) . .*/\1/p' /etc/fstab)" && echo by UUID
grep -c swap /etc/fstab || true
grep -o DataSourceNoCloud /run/cloud-init/result.json`)
	if got, want := string(out), fmt.Sprintf("%s\nnode-1\n4755 root\next4 vfat tmpfs\nby UUID\n0\nDataSourceNoCloud\n",
		mode); err != nil || got != want {
		t.Errorf("output of the machine: got %q, %v, want %q", got, err, want)
	}
}

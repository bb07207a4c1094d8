package target

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/holdfast-metal/holdfast/agent/installer/seed"
	"github.com/holdfast-metal/holdfast/agent/installer/table"
)

const (
	espDir = "boot/efi"
	// grubTime bounds each program of GRUB.
	grubTime = 5 * time.Minute
)

// grub is a way to boot with the root's own GRUB.
type grub struct {
	target string   // directory in /usr/lib/grub
	args   []string // of grub-install
	pkg    string   // of Debian
}

// ways returns the ways to boot this machine. The first one is that of its firmware.
func ways(disk string, uefi bool) []grub {
	// Package efi creates the boot entry.
	efi := grub{
		"x86_64-efi", []string{"--efi-directory=/" + espDir, "--removable", "--no-nvram"}, "grub-efi-amd64-bin",
	}
	if runtime.GOARCH == "arm64" {
		efi.target, efi.pkg = "arm64-efi", "grub-efi-arm64-bin"
		return []grub{efi}
	}
	bios := grub{"i386-pc", []string{"/dev/" + disk}, "grub-pc-bin"}
	if uefi {
		return []grub{efi, bios}
	}
	return []grub{bios, efi}
}

// bootable makes the unpacked, mounted root bootable by running its own GRUB.
func bootable(ctx context.Context, disk string, parts []partition, log *slog.Logger) (err error) {
	root, err := os.OpenRoot(mountPoint)
	if err != nil {
		return fmt.Errorf("open the root file system: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	system, err := device(ctx, parts, table.NumberSystem)
	if err != nil {
		return err
	}
	dev, err := device(ctx, parts, table.NumberRoot)
	if err != nil {
		return err
	}
	if err := name(root, system, dev); err != nil {
		return err
	}
	_, err = os.Stat(firmware)
	all := ways(disk, err == nil)
	tools, err := grubOf(root, all[0])
	if err != nil {
		return fmt.Errorf("%w: the root file system is on the disk, which does not boot: "+
			"a TAR image must contain its kernel and GRUB", err)
	}
	return within(root, system, func() error {
		for i, way := range all {
			if i > 0 && !there(root, "usr/lib/grub/"+way.target) {
				continue
			}
			if err := chroot(ctx, append([]string{tools.install, "--target=" + way.target}, way.args...)); err != nil {
				if i > 0 {
					log.Warn("the disk does not boot with other firmware", "target", way.target, "error", err)
					continue
				}
				return err
			}
			log.Info("boot loader installed", "target", way.target)
		}
		return chroot(ctx, tools.config)
	})
}

// name writes the fstab, and creates the links by which GRUB finds the file systems, as
// udev would.
func name(root *os.Root, system, dev string) error {
	var b [16]byte
	if err := readAt(dev, b[:], 1024+0x68); err != nil { // s_uuid of ext4's super block
		return err
	}
	var v [4]byte
	if err := readAt(system, v[:], 67); err != nil { // BS_VolID of FAT32
		return err
	}
	id, serial := uuid.UUID(b).String(), binary.LittleEndian.Uint32(v[:])
	volume := fmt.Sprintf("%04X-%04X", serial>>16, serial&0xffff)
	if err := seed.Fstab(root, []seed.Mount{
		{Source: "UUID=" + id, Dir: "/", Type: "ext4", Options: "errors=remount-ro", Pass: 1},
		{Source: "UUID=" + volume, Dir: "/" + espDir, Type: "vfat", Options: "umask=0077,nofail", Pass: 2},
	}); err != nil {
		return err
	}
	const byID = "/dev/disk/by-uuid"
	if err := os.MkdirAll(byID, 0o755); err != nil { //nolint:gosec // as udev creates it
		return fmt.Errorf("name the root: %w", err)
	}
	if err := os.Symlink(dev, path.Join(byID, id)); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("name the root: %w", err)
	}
	return nil
}

func readAt(dev string, b []byte, at int64) error {
	f, err := os.Open(dev)
	if err != nil {
		return fmt.Errorf("read the name of a file system: %w", err)
	}
	_, err = f.ReadAt(b, at)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("read the name of the file system on %s: %w", dev, err)
	}
	return nil
}

// tools are programs of the root.
type tools struct {
	install string
	config  []string
}

// grubOf returns the programs that make the root bootable, or an error that names the
// missing part.
func grubOf(root *os.Root, way grub) (t tools, err error) {
	kernels, err := fs.Glob(root.FS(), "boot/vmlinu[xz]*")
	if err != nil || len(kernels) == 0 {
		return t, errors.New("no kernel in it (/boot/vmlinuz*)")
	}
	if !there(root, "usr/lib/grub/"+way.target) {
		return t, fmt.Errorf("no GRUB in it for this machine (/usr/lib/grub/%s; Debian: %s and grub2-common)",
			way.target, way.pkg)
	}
	for _, dir := range []string{"usr/sbin", "usr/bin", "sbin", "bin"} {
		for _, name := range []string{"grub", "grub2"} { // some distributions use grub2
			tool := dir + "/" + name
			if t.install == "" && there(root, tool+"-install") {
				t.install = "/" + tool + "-install"
				t.config = []string{"/" + tool + "-mkconfig", "-o", "/boot/" + name + "/grub.cfg"}
			}
		}
	}
	if t.install == "" || !there(root, t.config[0][1:]) {
		return t, errors.New("no grub-install, or no grub-mkconfig in its directory (Debian: grub2-common)")
	}
	return t, nil
}

func there(root *os.Root, name string) bool {
	_, err := root.Lstat(name)
	return err == nil
}

// within calls do while the pseudo file systems and the EFI system partition are mounted in
// the root.
func within(root *os.Root, system string, do func() error) (err error) {
	// The list is of the machine that the image was made on.
	if err := root.Remove("boot/grub/device.map"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove GRUB's list of disks: %w", err)
	}
	var done []string
	defer func() {
		for len(done) > 0 {
			last := done[len(done)-1]
			done = done[:len(done)-1]
			if gone := unix.Unmount(last, unix.UMOUNT_NOFOLLOW); gone != nil {
				err = errors.Join(err, fmt.Errorf("unmount %s: %w", last, gone))
			}
		}
	}()
	for _, m := range []struct{ dev, dir, kind string }{
		{"proc", "proc", "proc"},
		{"sysfs", "sys", "sysfs"},
		{"devtmpfs", "dev", "devtmpfs"},
		{"tmpfs", "run", "tmpfs"},
		{system, espDir, "vfat"},
	} {
		if err := plainDir(root, m.dir); err != nil {
			return err
		}
		at := filepath.Join(mountPoint, m.dir)
		if err := unix.Mount(m.dev, at, m.kind, unix.MS_NOSUID, ""); err != nil {
			return fmt.Errorf("mount %s on /%s: %w", m.kind, m.dir, err)
		}
		done = append(done, at)
	}
	seen, err := watch(filepath.Join(mountPoint, espDir)) // the last one, and the only one on the disk
	if err != nil {
		return err
	}
	return errors.Join(do(), seen.flush())
}

// plainDir creates a directory of the root. It refuses links on its path, because a mount
// on it would be elsewhere.
func plainDir(root *os.Root, dir string) error {
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create /%s: %w", dir, err)
	}
	for at := dir; at != "."; at = path.Dir(at) {
		if st, err := root.Lstat(at); err != nil || !st.IsDir() {
			return fmt.Errorf("/%s is not a directory of the image: %w", at, errors.Join(err, fs.ErrInvalid))
		}
	}
	return nil
}

// chroot runs a program of the root in a chroot.
func chroot(ctx context.Context, line []string) error {
	ctx, cancel := context.WithTimeout(ctx, grubTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, line[0], line[1:]...) //nolint:gosec // it is meant to run the image's programs
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=/root", "GRUB_DISABLE_OS_PROBER=true"}
	cmd.Dir, cmd.SysProcAttr, cmd.WaitDelay = "/", &syscall.SysProcAttr{Chroot: mountPoint}, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run the image's %s: %w: %s", strings.Join(line, " "), err, tail(out))
	}
	return nil
}

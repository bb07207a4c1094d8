// Package target adapts a written disk to this machine and makes it bootable. It grows the
// last partition, mounts the root file system, grows it, calls package seed, and creates a
// boot entry if the firmware is UEFI. For a TAR image it creates partitions and file
// systems first, and runs the root's own GRUB at the end. Only then are programs of the
// image run.
//
// Debian's mke2fs and mkfs.fat create the file systems; the netboot image contains them
// (tools/netboot). They are safer than a rarely used library, because others have to read
// these file systems for years. The disk must be one that this installer has chosen.
package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-metal/holdfast/agent/installer/disks"
	"github.com/holdfast-metal/holdfast/agent/installer/peers"
	"github.com/holdfast-metal/holdfast/agent/installer/seed"
	"github.com/holdfast-metal/holdfast/agent/installer/table"
)

const (
	mountPoint = "/run/holdfast-target"
	// settle bounds the wait for the kernel to create partitions.
	settle = 20 * time.Second
)

// fileSystems returns the supported types of a root file system, the most likely one first.
func fileSystems() []string { return []string{"ext4", "xfs", "btrfs"} }

// Finish makes the disk bootable as this machine, and returns the public halves of its host
// keys. The disk must not be open.
func Finish(ctx context.Context, disk string, o peers.Order, log *slog.Logger) ([]string, error) {
	wait, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	if err := grow(wait, disk, log); err != nil {
		return nil, err
	}
	parts, err := partitions(disk)
	if err != nil {
		return nil, err
	}
	part, kind, err := mountRoot(wait, parts)
	if err != nil {
		return nil, fmt.Errorf("find the root file system of image %s: %w", o.Image.Name, err)
	}
	log.Info("root file system found", "partition", part.name, "type", kind)
	var keys []string
	seen, err := watch(mountPoint)
	if err == nil {
		keys, err = fill(part, kind, o, log)
		if err == nil && o.Image.Format == tarImage {
			err = bootable(ctx, disk, parts, log)
		}
		err = errors.Join(err, seen.flush())
	}
	if err := errors.Join(err, unix.Unmount(mountPoint, 0)); err != nil {
		return nil, err
	}
	wait, cancel = context.WithTimeout(ctx, settle)
	defer cancel()
	enter(wait, disk, parts, log)
	return keys, nil
}

func grow(ctx context.Context, disk string, log *slog.Logger) error {
	d, err := disks.Open(disk)
	if err != nil {
		return err
	}
	did, err := table.Grow(d.File, d.Size())
	if err != nil {
		// The image boots without growing, and may use a table that this installer does not
		// support.
		log.Warn("cannot grow the last partition", "error", err)
	} else {
		log.Info(did)
	}
	return errors.Join(d.Sync(), d.Reread(ctx), d.Close())
}

// partition is a block device that may have a file system.
type partition struct {
	name string
	size uint64 // bytes
}

// partitions returns the partitions of a disk, the largest first, or the disk itself if it
// has none.
func partitions(disk string) ([]partition, error) {
	dir := filepath.Join("/sys/block", disk)
	found, err := filepath.Glob(filepath.Join(dir, "*", "partition"))
	if err != nil {
		return nil, fmt.Errorf("list the partitions: %w", err)
	}
	all := make([]partition, 0, len(found)+1)
	for _, f := range found {
		all = append(all, partition{filepath.Base(filepath.Dir(f)), size(filepath.Dir(f))})
	}
	if len(all) == 0 {
		all = append(all, partition{disk, size(dir)})
	}
	slices.SortStableFunc(all, func(a, b partition) int { return cmp.Compare(b.size, a.size) })
	return all, nil
}

func size(dir string) uint64 {
	b, err := os.ReadFile(filepath.Join(dir, "size"))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 54)
	return n * 512
}

// mountRoot mounts the first partition that contains a root file system.
func mountRoot(ctx context.Context, parts []partition) (partition, string, error) {
	if err := os.MkdirAll(mountPoint, 0o700); err != nil {
		return partition{}, "", err
	}
	var seen []string
	for _, p := range parts {
		dev := "/dev/" + p.name
		if err := waitFor(ctx, dev); err != nil {
			seen = append(seen, p.name+": "+err.Error())
			continue
		}
		why := "no file system that this installer knows"
		for _, kind := range fileSystems() {
			err := unix.Mount(dev, mountPoint, kind, unix.MS_NOATIME, "")
			if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) {
				continue
			}
			if err != nil {
				why = kind + ": " + err.Error()
				continue
			}
			if isRoot(mountPoint) {
				return p, kind, nil
			}
			why = kind + ", but without /etc and an operating system in it"
			if err := unix.Unmount(mountPoint, 0); err != nil {
				return partition{}, "", fmt.Errorf("unmount %s: %w", p.name, err)
			}
			if kind == "btrfs" {
				found, err := mountSubvolume(dev)
				if found {
					return p, kind, nil
				}
				if err != nil {
					why = "btrfs: " + err.Error()
				}
			}
			break
		}
		seen = append(seen, p.name+": "+why)
	}
	return partition{}, "", fmt.Errorf("none of its partitions has one (%s): "+
		"it must be ext4, xfs or btrfs, not in LVM or encrypted", strings.Join(seen, "; "))
}

// mountSubvolume mounts the subvolume of a Btrfs with the root file system, and reports whether it
// has found one. Images often have their root in a subvolume that is not the default one, and name
// it in fstab and on the kernel command line.
func mountSubvolume(dev string) (found bool, err error) {
	if err := unix.Mount(dev, mountPoint, "btrfs", unix.MS_NOATIME|unix.MS_RDONLY, "subvolid=5"); err != nil {
		return false, fmt.Errorf("mount its top: %w", err)
	}
	name, err := rootSubvolume(mountPoint)
	if err := errors.Join(err, unix.Unmount(mountPoint, 0)); err != nil || name == "" {
		return false, err
	}
	if err := unix.Mount(dev, mountPoint, "btrfs", unix.MS_NOATIME, "subvol="+name); err != nil {
		return false, fmt.Errorf("mount its subvolume %s: %w", name, err)
	}
	return true, nil
}

// isRoot reports whether dir has files that every distribution has.
func isRoot(dir string) bool {
	if st, err := os.Stat(filepath.Join(dir, "etc")); err != nil || !st.IsDir() {
		return false
	}
	for _, name := range []string{"etc/os-release", "usr/lib/os-release", "sbin/init", "usr/sbin/init", "etc/passwd"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

func waitFor(ctx context.Context, name string) error {
	for {
		if _, err := os.Stat(name); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not appear", name)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func fill(p partition, kind string, o peers.Order, log *slog.Logger) ([]string, error) {
	if err := growRoot(p.size, kind); err != nil {
		log.Warn("cannot grow the root file system: cloud-init's growpart and resizefs may do it",
			"type", kind, "error", err)
	}
	root, err := os.OpenRoot(mountPoint)
	if err != nil {
		return nil, fmt.Errorf("open the root file system: %w", err)
	}
	keys, err := seed.Plant(root, o)
	return keys, errors.Join(err, root.Close())
}

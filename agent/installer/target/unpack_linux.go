package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-metal/holdfast/agent/installer/disks"
	"github.com/holdfast-metal/holdfast/agent/installer/rootfs"
	"github.com/holdfast-metal/holdfast/agent/installer/table"
	"github.com/holdfast-metal/holdfast/internal/diskrule"
)

const (
	tarImage   = "TAR" // peers.Image.Format
	mke2fs     = "mke2fs"
	mkfat      = "mkfs.fat"
	sectorSize = 512 // bytes; package table supports no other
	// makeTime bounds creating a file system, which is slow on a large rotational disk.
	makeTime = 10 * time.Minute
)

// features are the features of the root file system, independent of the version of mke2fs:
// all recent kernels and versions of GRUB support them.
const features = `[defaults]
	base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
	default_mntopts = acl,user_xattr
	enable_periodic_fsck = 0
	blocksize = 4096
	inode_size = 256
	inode_ratio = 16384
[fs_types]
	ext4 = {
		features = has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize
	}
`

// CanUnpack returns an error if a root file system cannot be unpacked to a disk. It writes
// nothing.
func CanUnpack(disk string) error {
	for _, p := range []string{mke2fs, mkfat} {
		if _, err := program(p); err != nil {
			return fmt.Errorf("%w: the netboot image was built without it (make netboot shows why), "+
				"and a rescue system has it in e2fsprogs or dosfstools", err)
		}
	}
	d, err := disks.Open(disk)
	if err != nil {
		return err
	}
	if err := d.Close(); err != nil {
		return fmt.Errorf("close %s: %w", disk, err)
	}
	if d.SectorSize() != sectorSize {
		return fmt.Errorf("disk %s has sectors of %d bytes, and this installer supports only %d",
			disk, d.SectorSize(), sectorSize)
	}
	if d.Size() < table.Least {
		return fmt.Errorf("disk %s has %d bytes (%s), and at least %s are needed",
			disk, d.Size(), diskrule.Size(d.Size()), diskrule.Size(table.Least))
	}
	return nil
}

// Unpack creates partitions and file systems, and unpacks an archive into the root. The
// disk must not be open. It does not boot afterwards.
func Unpack(ctx context.Context, disk string, archive io.Reader, log *slog.Logger) error {
	wait, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	if err := divide(wait, disk); err != nil {
		return err
	}
	parts, err := partitions(disk)
	if err != nil {
		return err
	}
	system, err := device(wait, parts, table.NumberSystem)
	if err != nil {
		return err
	}
	root, err := device(wait, parts, table.NumberRoot)
	if err != nil {
		return err
	}
	if err := format(ctx, system, root); err != nil {
		return err
	}
	log.Info("partitions and file systems created", "disk", disk, "root", root)
	var stats rootfs.Stats
	err = mounted(root, mountPoint, "ext4", unix.MS_NOATIME, func() error {
		stats, err = rootfs.Unpack(ctx, mountPoint, archive)
		return err
	})
	if err != nil {
		return err
	}
	log.Info("root file system unpacked", "entries", stats.Entries, "file_bytes", stats.Bytes)
	return nil
}

// divide creates the three partitions, and makes the kernel read them.
func divide(ctx context.Context, disk string) error {
	d, err := disks.Open(disk)
	if err != nil {
		return err
	}
	return errors.Join(table.Make(d.File, d.Size()), d.Sync(), d.Reread(ctx), d.Close())
}

// format creates the file systems.
func format(ctx context.Context, system, root string) error {
	dir, err := os.MkdirTemp("", "mke2fs-")
	if err != nil {
		return fmt.Errorf("create file systems: %w", err)
	}
	conf := filepath.Join(dir, "mke2fs.conf")
	err = os.WriteFile(conf, []byte(features), 0o600)
	for _, line := range [][]string{
		{mkfat, "-F", "32", "-n", "ESP", system},
		{mke2fs, "-q", "-F", "-t", "ext4", "-L", "root", "-E", "lazy_itable_init=1", root},
	} {
		if err == nil {
			err = run(ctx, "MKE2FS_CONFIG="+conf, line)
		}
	}
	return errors.Join(err, os.RemoveAll(dir))
}

func run(ctx context.Context, env string, line []string) error {
	ctx, cancel := context.WithTimeout(ctx, makeTime)
	defer cancel()
	path, err := program(line[0])
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, line[1:]...) //nolint:gosec // one of two, found in system directories
	cmd.Env = []string{"PATH=/sbin:/usr/sbin:/bin:/usr/bin", "LC_ALL=C", env}
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("create a file system: %s: %w: %s", strings.Join(line, " "), err, tail(out))
	}
	return nil
}

// program returns the path of a program. It searches system directories too, because an
// init has no PATH.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/sbin", "/usr/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s not found", name)
}

// tail returns the end of a program's output, in one line.
func tail(out []byte) string {
	const most = 600
	text := strings.Join(strings.Fields(string(out)), " ")
	return text[max(0, len(text)-most):]
}

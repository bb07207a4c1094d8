// Package disks lists the disks of a Linux machine and erases them.
//
// It reads the description of a disk from sysfs, and uses the ioctls that erase a disk and
// reread its partition table. It does not choose a disk: the caller of Erase does.
package disks

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/diskrule"
)

// sysSector is the unit of all sizes in sysfs, in bytes, independent of the disk's own
// sectors.
const sysSector = 512

// List returns the disks in sys/block of a root file system, sorted by name. It omits
// devices built on disks or memory (device mapper, RAID, loop devices) and optical drives.
func List(root fs.FS) ([]diskrule.Disk, error) {
	entries, err := fs.ReadDir(root, "sys/block")
	if err != nil {
		return nil, fmt.Errorf("list the disks: %w", err)
	}
	var all []diskrule.Disk
	for _, e := range entries {
		name := e.Name()
		dir := path.Join("sys/block", name)
		if !isDisk(name) || line(root, path.Join(dir, "hidden")) == "1" {
			continue
		}
		sectors, _ := strconv.ParseUint(line(root, path.Join(dir, "size")), 10, 54)
		d := diskrule.Disk{
			Name: name, SizeBytes: sectors * sysSector,
			Rotational: line(root, path.Join(dir, "queue/rotational")) == "1",
			ReadOnly:   line(root, path.Join(dir, "ro")) == "1",
			Removable:  line(root, path.Join(dir, "removable")) == "1",
			Model:      first(root, dir, "device/model"),
			WWN:        first(root, dir, "wwid", "device/wwid"),
			Serial:     first(root, dir, "serial", "device/serial"),
			Remote:     remote(root, name),
		}
		if d.Serial == "" {
			d.Serial = unitSerial(root, dir)
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b diskrule.Disk) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// isDisk reports whether a name is one that disk drivers assign.
func isDisk(name string) bool {
	if strings.HasPrefix(name, "mmcblk") {
		return !strings.Contains(name, "boot") && !strings.Contains(name, "rpmb")
	}
	return hasPrefix(name, "sd", "vd", "xvd", "nvme", "hd", "pmem")
}

// first returns the contents of the first file that is not empty.
func first(root fs.FS, dir string, names ...string) string {
	for _, n := range names {
		if text := line(root, path.Join(dir, n)); text != "" {
			return text
		}
	}
	return ""
}

func line(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(strings.Trim(string(b), "\x00")), " ")
}

// unitSerial reads the Unit Serial Number page of a SCSI disk (SPC-4, 7.8.15): two bytes of
// length before the text.
func unitSerial(root fs.FS, dir string) string {
	b, err := fs.ReadFile(root, path.Join(dir, "device/vpd_pg80"))
	if err != nil || len(b) < 4 {
		return ""
	}
	n := int(b[2])<<8 | int(b[3])
	return strings.TrimSpace(strings.Trim(string(b[4:min(len(b), 4+n)]), "\x00"))
}

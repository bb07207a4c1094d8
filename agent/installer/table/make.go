package table

import (
	"fmt"
	"os"

	"github.com/diskfs/go-diskfs/partition/gpt"
)

// Numbers of the partitions that Make creates. The first one holds the part of GRUB behind
// the boot sector, for BIOS. The second one is the EFI system partition.
const (
	NumberBIOS = 1 + iota
	NumberSystem
	NumberRoot
)

// Their starts, in sectors, each at a whole MiB.
const (
	biosStart   = align
	systemStart = biosStart + align
	rootStart   = systemStart + 256*align
)

// Least is the minimum disk size for Make, in bytes.
const Least = 1 << 30

// Make creates a GPT on a disk of so many bytes, for a root file system without one. Both
// BIOS and UEFI can boot from it. The disk's old partitions are gone afterwards. The table
// has no boot code.
func Make(disk *os.File, size uint64) error {
	if size < Least {
		return fmt.Errorf("create partitions: the disk has %d bytes, want at least %d", size, Least)
	}
	// The copy of the table is behind the last whole MiB, or in it.
	end := (size/sector-copySectors)/align*align - 1
	t := &gpt.Table{
		ProtectiveMBR: true, LogicalSectorSize: sector, PhysicalSectorSize: sector,
	}
	t.Partitions = []*gpt.Partition{
		{Index: NumberBIOS, Start: biosStart, End: systemStart - 1, Type: gpt.BIOSBoot, Name: "bios"},
		{Index: NumberSystem, Start: systemStart, End: rootStart - 1, Type: gpt.EFISystemPartition, Name: "esp"},
		{Index: NumberRoot, Start: rootStart, End: end, Type: gpt.LinuxFilesystem, Name: "root"},
	}
	if err := t.Write(disk, int64(size)); err != nil {
		return fmt.Errorf("create partitions: %w", err)
	}
	if err := protect(disk, size, 0); err != nil { // the library's is wrong beyond 2 TiB
		return fmt.Errorf("create partitions: %w", err)
	}
	return nil
}

// copySectors is the number of sectors of a GPT's copy at the end of the disk: 128 entries
// of 128 bytes, and its header.
const copySectors = 128*128/sector + 1

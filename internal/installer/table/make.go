package table

import (
	"fmt"
	"os"

	"github.com/diskfs/go-diskfs/partition/gpt"
)

// The partitions that Make makes, by number. The first is for what GRUB has behind the first sector
// when BIOS boots it; the second is the EFI system partition.
const (
	NumberBIOS = 1 + iota
	NumberSystem
	NumberRoot
)

// Where they begin, in sectors, each at a whole MiB.
const (
	biosStart   = align
	systemStart = biosStart + align
	rootStart   = systemStart + 256*align
)

// Least is how large a disk has to be for Make, in bytes.
const Least = 1 << 30

// Make makes a GPT on a disk of so many bytes, for a root file system that comes without one: BIOS
// and UEFI boot from it alike. Nothing that was on the disk can be found by it afterwards; there is
// no boot code in it.
func Make(disk *os.File, size uint64) error {
	if size < Least {
		return fmt.Errorf("make partitions: the disk has %d bytes, want %d at least", size, Least)
	}
	// The copy of the table is behind the last whole MiB, or in it.
	end := (size/sector-copySectors)/align*align - 1
	t := &gpt.Table{ProtectiveMBR: true, LogicalSectorSize: sector, PhysicalSectorSize: sector, Partitions: []*gpt.Partition{
		{Index: NumberBIOS, Start: biosStart, End: systemStart - 1, Type: gpt.BIOSBoot, Name: "bios"},
		{Index: NumberSystem, Start: systemStart, End: rootStart - 1, Type: gpt.EFISystemPartition, Name: "esp"},
		{Index: NumberRoot, Start: rootStart, End: end, Type: gpt.LinuxFilesystem, Name: "root"},
	}}
	if err := t.Write(disk, int64(size)); err != nil {
		return fmt.Errorf("make partitions: %w", err)
	}
	if err := protect(disk, size, 0); err != nil { // the library's is wrong beyond 2 TiB
		return fmt.Errorf("make partitions: %w", err)
	}
	return nil
}

// copySectors are those at the end of the disk that the copy of a GPT takes: 128 entries of 128
// bytes, and its header.
const copySectors = 128*128/sector + 1

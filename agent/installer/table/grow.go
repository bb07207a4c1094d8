package table

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"

	"github.com/diskfs/go-diskfs/partition/gpt"
)

// align is the alignment of the end of a grown partition, in sectors: 1 MiB.
const align = 1 << 20 / sector

// Grow extends the last partition to the end of a disk of so many bytes, and moves the copy
// of a GPT there. It returns a message for the log. It changes nothing if there is no
// table, or if the last partition is large enough.
func Grow(disk *os.File, size uint64) (did string, err error) {
	head, entries, ok, err := readHead(disk)
	if err != nil {
		return "", err
	}
	if !ok {
		return "no partition table: nothing to grow", nil
	}
	for i, e := range entries {
		if e.kind == typeGPT && gptAt(head, sector) {
			return growGPT(disk, size, i)
		}
	}
	return growMBR(disk, size, entries)
}

func growMBR(disk *os.File, size uint64, entries []entry) (string, error) {
	last := -1
	for i, e := range entries {
		if e.kind != 0 && e.count > 0 && (last < 0 || e.start > entries[last].start) {
			last = i
		}
	}
	if last < 0 {
		return "the partition table is empty: nothing to grow", nil
	}
	e := entries[last]
	if e.kind == typeExtended || e.kind == typeExtLBA {
		return fmt.Sprintf("partition %d is extended: not grown", last+1), nil
	}
	end := min(size/sector, math.MaxUint32) / align * align // an MBR ends at 2 TiB
	if end <= uint64(e.start)+uint64(e.count) {
		return fmt.Sprintf("partition %d reaches the end of the disk", last+1), nil
	}
	var count [4]byte
	binary.LittleEndian.PutUint32(count[:], uint32(end)-e.start)
	if _, err := disk.WriteAt(count[:], int64(mbrEntries+last*mbrEntrySize+12)); err != nil {
		return "", fmt.Errorf("grow partition %d: %w", last+1, err)
	}
	return fmt.Sprintf("partition %d (MBR) now has %d sectors instead of %d", last+1, uint32(end)-e.start, e.count), nil
}

// growGPT changes only the size of the protective entry in the MBR: boot code, a boot flag
// and hybrid entries are kept.
func growGPT(disk *os.File, size uint64, protective int) (string, error) {
	t, err := gpt.Read(disk, sector, sector)
	if err != nil {
		return "", fmt.Errorf("read the GPT: %w", err)
	}
	var last *gpt.Partition
	for _, p := range t.Partitions {
		if p != nil && p.Type != gpt.Unused && (last == nil || p.Start > last.Start) {
			last = p
		}
	}
	if last == nil {
		return "the partition table is empty: nothing to grow", nil
	}
	if size < t.TotalSize() {
		return "", fmt.Errorf("grow the GPT: it was made for a disk of %d bytes, and this one has %d",
			t.TotalSize(), size)
	}
	if err := t.Repair(size); err != nil {
		return "", fmt.Errorf("move the copy of the GPT: %w", err)
	}
	was := last.End
	if end := (t.LastDataSector()+1)/align*align - 1; end > last.End {
		last.End = end
		last.Size = (last.End - last.Start + 1) * sector
	}
	t.ProtectiveMBR = false // do not write it
	if err := t.Write(disk, int64(size)); err != nil {
		return "", fmt.Errorf("write the GPT: %w", err)
	}
	if err := protect(disk, size, protective); err != nil {
		return "", err
	}
	if last.End == was {
		const moved = "the copy of the GPT was moved to the end of the disk; the last partition already ends there"
		return moved, nil
	}
	return fmt.Sprintf("the last partition (GPT, %q) now ends at sector %d instead of %d",
		last.Name, last.End, was), nil
}

// protect sets the protective entry of an MBR to the size of the disk, as far as it can
// hold it.
func protect(disk *os.File, size uint64, entry int) error {
	var count [4]byte
	binary.LittleEndian.PutUint32(count[:], uint32(min(size/sector-1, math.MaxUint32)))
	if _, err := disk.WriteAt(count[:], int64(mbrEntries+entry*mbrEntrySize+12)); err != nil {
		return fmt.Errorf("write the protective MBR: %w", err)
	}
	return nil
}

// Package table reads and grows partition tables, MBR and GPT, and creates the table of a
// disk for a root file system.
//
// It computes the disk size that an image's first bytes require, and extends the last
// partition to the end of the disk. It writes nothing but tables, and ignores the contents
// of partitions. It assumes sectors of 512 bytes, as images do; Fits reports whether a disk
// with other sectors can boot an image.
package table

import (
	"encoding/binary"
	"fmt"
	"io"
)

const (
	sector = 512 // bytes
	// The table of an MBR, and its parts.
	mbrEntries   = 446
	mbrEntrySize = 16
	mbrCount     = 4
	typeGPT      = 0xee // the protective entry
	typeExtended = 0x05
	typeExtLBA   = 0x0f
)

// entry is one partition of an MBR.
type entry struct {
	kind         byte
	start, count uint32 // sectors
}

func mbr(head []byte) (entries []entry, ok bool) {
	if len(head) < sector || head[510] != 0x55 || head[511] != 0xaa {
		return nil, false
	}
	for i := range mbrCount {
		b := head[mbrEntries+i*mbrEntrySize:]
		if status := b[0]; status != 0 && status != 0x80 {
			return nil, false // boot code of a file system, not a table
		}
		entries = append(entries, entry{
			kind:  b[4],
			start: binary.LittleEndian.Uint32(b[8:]),
			count: binary.LittleEndian.Uint32(b[12:]),
		})
	}
	return entries, true
}

// readHead reads the first two sectors of a disk and the entries of its MBR. ok is false if it has
// no MBR.
func readHead(disk io.ReaderAt) (head []byte, entries []entry, ok bool, err error) {
	head = make([]byte, 2*sector)
	if _, err := io.ReadFull(io.NewSectionReader(disk, 0, int64(len(head))), head); err != nil {
		return nil, nil, false, fmt.Errorf("read the partition table: %w", err)
	}
	entries, ok = mbr(head)
	return head, entries, ok, nil
}

// Fits reports whether a disk whose sectors have so many bytes can boot with the table at
// the start of an image. A table counts in sectors and does not contain their size: one
// made for 512 bytes is wrong on other disks. An image without a table fits any disk.
func Fits(head []byte, bytes int) bool {
	if bytes == sector || gptAt(head, bytes) {
		return true
	}
	entries, _ := mbr(head)
	for _, e := range entries {
		if e.kind != 0 && e.kind != typeGPT {
			return false
		}
	}
	return !gptAt(head, sector)
}

// gptAt reports whether the second sector of so many bytes has the header of a GPT.
func gptAt(head []byte, bytes int) bool {
	const signature = "EFI PART"
	return bytes > 0 && len(head) >= bytes+len(signature) && string(head[bytes:bytes+len(signature)]) == signature
}

// Need returns the disk size that the table at the start of an image requires, in bytes. It
// returns 0 if there is no readable table.
func Need(head []byte) uint64 {
	entries, ok := mbr(head)
	if !ok {
		return 0
	}
	var need uint64
	for _, e := range entries {
		if e.kind == typeGPT && len(head) >= 2*sector && gptAt(head, sector) {
			// The last usable sector precedes the copy of the table, and growing the table
			// computes it again. Only the ends of the partitions count.
			return max(need, gptNeed(head))
		}
		if e.kind != 0 && e.kind != typeGPT && e.count > 0 {
			need = max(need, (uint64(e.start)+uint64(e.count))*sector)
		}
	}
	return need
}

// gptNeed returns the end of the last partition plus the size of the table's copy.
func gptNeed(head []byte) uint64 {
	const most = 1 << 20 // maximum number of entries
	h := head[sector:]
	array := binary.LittleEndian.Uint64(h[72:])
	count, size := binary.LittleEndian.Uint32(h[80:]), binary.LittleEndian.Uint32(h[84:])
	if size < 128 || size > 4096 || count > most || array > most {
		return 0
	}
	var last uint64
	for i := range uint64(count) {
		at := array*sector + i*uint64(size)
		if at+uint64(size) > uint64(len(head)) {
			break
		}
		first, end := binary.LittleEndian.Uint64(head[at+32:]), binary.LittleEndian.Uint64(head[at+40:])
		if first > 0 && end >= first && end < 1<<54 {
			last = max(last, end)
		}
	}
	if last == 0 {
		return 0
	}
	copies := (uint64(count)*uint64(size) + sector - 1) / sector
	return (last + 1 + copies + 1) * sector
}

// Package table reads and grows partition tables, MBR and GPT, and makes the one of a disk that a
// root file system is unpacked to.
//
// It owns what an image's first bytes say about the disk it needs, and making the last partition
// reach to the end of the disk. It writes nothing but tables, and does not know what is in a
// partition. Sectors have 512 bytes: images are made so, and Fits says which of them a disk with
// others cannot boot.
package table

import "encoding/binary"

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
			return nil, false // it is boot code of a file system, not a table
		}
		entries = append(entries, entry{kind: b[4], start: binary.LittleEndian.Uint32(b[8:]), count: binary.LittleEndian.Uint32(b[12:])})
	}
	return entries, true
}

// Fits reports whether a disk whose sectors have so many bytes can boot by the table at the start
// of an image. A table counts in sectors and does not say how large they are: one that was made for
// 512 bytes leads elsewhere on a disk with others. An image without a table fits any disk.
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

// gptAt reports whether the header of a GPT for sectors of so many bytes is there: it has the
// second one.
func gptAt(head []byte, bytes int) bool {
	const signature = "EFI PART"
	return bytes > 0 && len(head) >= bytes+len(signature) && string(head[bytes:bytes+len(signature)]) == signature
}

// Need is how large a disk has to be for the table at the start of an image, in bytes: 0 if there
// is none, or none that can be read.
func Need(head []byte) uint64 {
	entries, ok := mbr(head)
	if !ok {
		return 0
	}
	var need uint64
	for _, e := range entries {
		if e.kind == typeGPT && len(head) >= 2*sector && gptAt(head, sector) {
			// The last usable sector has the copy of the table behind it, which is found anew when
			// the table is grown: partitions end there at most.
			return max(need, gptNeed(head))
		}
		if e.kind != 0 && e.kind != typeGPT && e.count > 0 {
			need = max(need, (uint64(e.start)+uint64(e.count))*sector)
		}
	}
	return need
}

// gptNeed is the end of the last partition and the room for the copy of the table.
func gptNeed(head []byte) uint64 {
	const most = 1 << 20 // entries that are believed
	h := head[sector:]
	array, count, size := binary.LittleEndian.Uint64(h[72:]), binary.LittleEndian.Uint32(h[80:]), binary.LittleEndian.Uint32(h[84:])
	if size < 128 || size > 4096 || count > most || array > most {
		return 0
	}
	var last uint64
	for i := range uint64(count) {
		at := array*sector + i*uint64(size)
		if at+uint64(size) > uint64(len(head)) {
			break
		}
		if first, end := binary.LittleEndian.Uint64(head[at+32:]), binary.LittleEndian.Uint64(head[at+40:]); first > 0 && end >= first && end < 1<<54 {
			last = max(last, end)
		}
	}
	if last == 0 {
		return 0
	}
	copies := (uint64(count)*uint64(size) + sector - 1) / sector
	return (last + 1 + copies + 1) * sector
}

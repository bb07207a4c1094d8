package table

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/google/uuid"
)

const typeSystem = 0xef // an EFI system partition in an MBR

// System is the EFI system partition of a disk.
type System struct {
	Partition    int    // from 1
	Start, Count uint64 // sectors
	GPT          bool   // otherwise MBR
	// ID is the partition's GUID as stored in the GPT. With an MBR, its first four bytes
	// are the disk signature.
	ID [16]byte
}

// FindSystem returns the first EFI system partition of a disk. It reports in ok whether
// there is one.
func FindSystem(disk *os.File) (s System, ok bool, err error) {
	head, entries, ok, err := readHead(disk)
	if err != nil || !ok {
		return System{}, false, err
	}
	for i, e := range entries {
		if e.kind == typeGPT && gptAt(head, sector) {
			return systemGPT(disk)
		}
		if e.kind == typeSystem && e.count > 0 {
			s = System{Partition: i + 1, Start: uint64(e.start), Count: uint64(e.count)}
			copy(s.ID[:4], head[440:444])
			return s, true, nil
		}
	}
	return System{}, false, nil
}

func systemGPT(disk *os.File) (System, bool, error) {
	t, err := gpt.Read(disk, sector, sector)
	if err != nil {
		return System{}, false, fmt.Errorf("read the GPT: %w", err)
	}
	for _, p := range t.Partitions {
		if p == nil || !strings.EqualFold(string(p.Type), string(gpt.EFISystemPartition)) {
			continue
		}
		id, err := uuid.Parse(p.GUID)
		if err != nil {
			return System{}, false, fmt.Errorf("read the GPT: the GUID of partition %d: %w", p.Index, err)
		}
		s := System{Partition: p.Index, Start: p.Start, Count: p.End - p.Start + 1, GPT: true, ID: id}
		// The first three fields are little endian in the table (UEFI Specification 2.10,
		// appendix A).
		binary.LittleEndian.PutUint32(s.ID[0:], binary.BigEndian.Uint32(id[0:]))
		binary.LittleEndian.PutUint16(s.ID[4:], binary.BigEndian.Uint16(id[4:]))
		binary.LittleEndian.PutUint16(s.ID[6:], binary.BigEndian.Uint16(id[6:]))
		return s, true, nil
	}
	return System{}, false, nil
}

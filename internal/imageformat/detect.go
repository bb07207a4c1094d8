// Package imageformat recognizes the format of an image of a disk by its first bytes, and decides
// whether an installer can write it. The CLI and the server use it when an image is added, the
// installer before it touches a disk. It must not read files or know where images are.
package imageformat

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// Format is a format of files. Its text completes "it is …".
type Format string

// Formats that an installer can write, and compressions that it can undo.
const (
	Unknown Format = "of no known format"
	Disk    Format = "a disk with a boot sector"
	Ext     Format = "an ext file system"
	XFS     Format = "an XFS file system"
	Btrfs   Format = "a Btrfs file system"
	QCOW2   Format = "QCOW2"
	TAR     Format = "a tar archive"
	Gzip    Format = "compressed with gzip"
	Zstd    Format = "compressed with zstd"
	ISO     Format = "an ISO 9660 medium without a partition table"
	Kernel  Format = "a Linux kernel"
)

// magic is a signature: the bytes of a format at an offset.
type magic struct {
	at     int
	bytes  string
	format Format
}

// magics returns the signatures, those that are certain first. A boot sector is looked for last,
// because its signature has only two bytes.
func magics() []magic {
	return []magic{
		{0, "\x1f\x8b", Gzip},
		{0, "\x28\xb5\x2f\xfd", Zstd},
		{0, "\xfd7zXZ\x00", "compressed with xz"},
		{0, "BZh", "compressed with bzip2"},
		{0, "\x04\x22\x4d\x18", "compressed with lz4"},
		{0, "\x02\x21\x4c\x18", "compressed with lz4"},
		{0, "LZIP", "compressed with lzip"},
		{0, "\x89LZO\x00\r\n\x1a\n", "compressed with lzop"},
		{0, "\x5d\x00\x00", "compressed with lzma"},
		{0, "\x1f\x9d", "compressed with compress"},
		{0, "\x1f\xa0", "compressed with compress"},
		{0, "7z\xbc\xaf\x27\x1c", "a 7z archive"},
		{0, "PK\x03\x04", "a zip archive"},
		{0, "PK\x05\x06", "a zip archive"},
		{0, "Rar!\x1a\x07", "a RAR archive"},
		{0, "MSCF\x00", "a cabinet archive"},
		{0, "070701", "a cpio archive"},
		{0, "070707", "a cpio archive"},
		{0, "!<arch>\n", "a package or an ar archive"},
		{0, "\xed\xab\xee\xdb", "an RPM package"},
		{0, "QFI\xfb\x00\x00\x00\x01", "QCOW version 1"},
		{0, "QFI\xfb", QCOW2},
		{0, "QED\x00", "QED"},
		{0, "KDMV", "VMDK"},
		{0, "COWD", "VMDK"},
		{0, "# Disk DescriptorFile", "VMDK"},
		{0, "vhdxfile", "VHDX"},
		{0, "conectix", "VHD"},
		{0x40, "\x7f\x10\xda\xbe", "VDI"},
		{0, "WithoutFreeSpace", "a Parallels disk"},
		{0, "WithouFreSpacExt", "a Parallels disk"},
		{0, "VMA\x00", "a Proxmox backup"},
		{0, "\x3a\xff\x26\xed", "an Android sparse image"},
		{0, "MSWIM\x00\x00\x00", "WIM"},
		{0, "partclone-image", "a Partclone image"},
		{0, "EVF\x09\x0d\x0a\xff\x00", "an EnCase image"},
		{0, "hsqs", "a SquashFS file system"},
		{0, "\x7fELF", "a program"},
		{257, "ustar", TAR},
		{0x202, "HdrS", Kernel},
		{0x38, "ARM\x64", Kernel},
		{0x438, "\x53\xef", Ext},
		{0, "XFSB", XFS},
		{0x10040, "_BHRfS_M", Btrfs},
		{0, "LUKS\xba\xbe", "an encrypted volume (LUKS)"},
		{0x200, "LABELONE", "an LVM volume"},
	}
}

// Detect returns the format of a file by its first bytes, Unknown if they show none.
func Detect(head []byte) Format {
	for _, m := range magics() {
		if has(head, m.at, m.bytes) && confirmed(m.format, head) {
			return m.format
		}
	}
	switch {
	case partitioned(head), has(head, 512, "EFI PART"), has(head, 4096, "EFI PART"):
		return Disk
	case has(head, 32769, "CD001"):
		return ISO
	case has(head, 0x1fe, "\x55\xaa") && (head[0] == 0xeb || head[0] == 0xe9):
		return Disk // a file system with a boot sector
	case isText(head):
		return "text, perhaps the error page of a server"
	}
	return Unknown
}

// confirmed checks more bytes of the formats whose signature is short.
func confirmed(f Format, head []byte) bool {
	switch f {
	case "compressed with bzip2":
		return len(head) > 9 && head[3] >= '1' && head[3] <= '9' &&
			(has(head, 4, "1AY&SY") || has(head, 4, "\x17\x72\x45\x38\x50\x90"))
	case "compressed with lzma":
		// A size of the dictionary that is a power of two, and an unknown or plausible size.
		if len(head) < 13 {
			return false
		}
		dict, size := binary.LittleEndian.Uint32(head[1:]), binary.LittleEndian.Uint64(head[5:])
		return dict >= 1<<12 && dict&(dict-1) == 0 && (size == 1<<64-1 || size < 1<<42)
	case Ext:
		// The superblock also has a plausible size of blocks and a state.
		return len(head) >= 0x43c && binary.LittleEndian.Uint32(head[0x418:]) <= 6 && !partitioned(head)
	}
	return true
}

// partitioned reports whether a boot sector has a partition.
func partitioned(head []byte) bool {
	if !has(head, 0x1fe, "\x55\xaa") {
		return false
	}
	for at := 0x1be; at < 0x1fe; at += 16 {
		kind, sectors := head[at+4], binary.LittleEndian.Uint32(head[at+12:])
		if (head[at] == 0 || head[at] == 0x80) && kind != 0 && sectors != 0 {
			return true
		}
	}
	return false
}

func has(head []byte, at int, sign string) bool {
	return len(head) >= at+len(sign) && string(head[at:at+len(sign)]) == sign
}

// isText reports whether the first bytes are printable.
func isText(head []byte) bool {
	head = head[:min(len(head), 512)]
	return len(head) > 0 && bytes.IndexFunc(head, func(r rune) bool {
		return r < ' ' && !strings.ContainsRune("\r\n\t\x1b", r) || r == '\ufffd' || r == 0x7f
	}) < 0
}

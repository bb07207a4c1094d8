package imageformat

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// HeadSize is how many of the first bytes of a file Check wants, as they are sent. A block of
	// zstd has up to 128 KiB.
	HeadSize = 256 << 10
	// PlainSize is how many of the decompressed bytes are examined. The superblock of Btrfs is
	// the signature that is farthest in.
	PlainSize = 128 << 10
	maxWindow = 128 << 20 // as in the installer
)

// Error means that an image is not in the format that was declared for it.
type Error struct {
	Declared string // "RAW" or "RAW compressed with GZIP", say
	Found    Format
	Remedy   string
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("its format was declared as %s, but it is %s: %s", e.Declared, e.Found, e.Remedy)
}

// Check returns an *Error unless the first bytes of a file, as they are sent, are those of an image
// with the declared format (RAW, QCOW2 or TAR) and compression (NONE, GZIP or ZSTD), in capitals.
func Check(format, compression string, head []byte) error {
	declared := format
	if compression != "NONE" {
		declared += " compressed with " + compression
	}
	wrong := func(found Format, remedy string) error {
		return &Error{Declared: declared, Found: found, Remedy: remedy}
	}
	plain := head
	want, packed := map[string]Format{"GZIP": Gzip, "ZSTD": Zstd}[compression]
	if packed {
		if found := Detect(head); found != want {
			return wrong(found, remedy(found))
		}
		var err error
		if plain, err = unpack(compression, head); err != nil {
			return wrong(want, "and damaged ("+err.Error()+"): compress it again")
		}
	}
	found := Detect(plain)
	if !fits(format, found) {
		return wrong(found, remedy(found))
	}
	switch found {
	case QCOW2:
		if why := checkQCOW2(plain); why != "" {
			return wrong("QCOW2 "+Format(why), "convert it (qemu-img convert -O raw), and add the result")
		}
	case TAR:
		if kind := archiveKind(plain); kind != "" {
			return wrong(kind, "add the disk in it, or a tar of a root file system")
		}
	}
	return nil
}

// fits reports whether an installer that expects a format can write what was found.
func fits(format string, found Format) bool {
	switch format {
	case "RAW":
		return found == Disk || found == Ext || found == XFS || found == Btrfs
	case "QCOW2":
		return found == QCOW2
	case "TAR":
		return found == TAR
	}
	return false
}

// remedy returns the next step for a file of a format that was not declared.
func remedy(found Format) string {
	switch found {
	case Gzip:
		return "set its compression to gzip"
	case Zstd:
		return "set its compression to zstd"
	case Disk, Ext, XFS, Btrfs:
		return "set its format to raw, and its compression to none"
	case QCOW2:
		return "set its format to qcow2, and its compression to none"
	case TAR:
		return "set its format to tar, and its compression to none"
	case ISO:
		return "add the disk image of that system: media are booted, and cannot be installed"
	case Unknown:
		return "an image is a disk with a partition table, a root file system, QCOW2, or a tar of a root"
	}
	if strings.HasPrefix(string(found), "compressed with ") {
		return "decompress it, and compress it with gzip or zstd if it should be small"
	}
	return "convert it to raw or qcow2 (qemu-img convert -O raw IMAGE OUT)"
}

// unpack returns the start of the decompressed bytes. The end of head is in the middle of a file,
// so a missing end is no error.
func unpack(compression string, head []byte) ([]byte, error) {
	var r io.Reader
	switch compression {
	case "GZIP":
		z, err := gzip.NewReader(bytes.NewReader(head))
		if err != nil {
			return nil, err
		}
		defer func() { _ = z.Close() }()
		r = z
	default:
		z, err := zstd.NewReader(bytes.NewReader(head), zstd.WithDecoderMaxWindow(maxWindow),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	}
	plain := make([]byte, PlainSize)
	n, err := io.ReadFull(r, plain)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return plain[:n], nil
}

// Incompatible features of QCOW2 (docs/interop/qcow2.txt of QEMU).
const (
	featureDataFile    = 1 << 2
	featureCompression = 1 << 3
	featureKnown       = 1<<0 | 1<<1 | featureDataFile | featureCompression | 1<<4
)

// checkQCOW2 returns the property of a QCOW2 file that an installer cannot read, or "".
func checkQCOW2(head []byte) string {
	if len(head) < 72 {
		return "that is cut off"
	}
	if binary.BigEndian.Uint64(head[8:]) != 0 {
		return "with a backing file"
	}
	if binary.BigEndian.Uint32(head[32:]) != 0 {
		return "that is encrypted"
	}
	if version := binary.BigEndian.Uint32(head[4:]); version < 3 || len(head) < 112 {
		return ""
	}
	switch f := binary.BigEndian.Uint64(head[72:]); {
	case f&featureDataFile != 0:
		return "with an external data file"
	case f&featureCompression != 0 && head[104] == 1:
		return "with clusters compressed with zstd"
	case f&^featureKnown != 0:
		return "with unknown features"
	}
	return ""
}

// archiveKind returns the kind of a tar that is no root file system, or "". It looks at the entries
// up to the first one that a root has.
func archiveKind(head []byte) Format {
	r := tar.NewReader(bytes.NewReader(head))
	for {
		h, err := r.Next()
		if err != nil {
			return ""
		}
		name := strings.Trim(strings.TrimPrefix(h.Name, "./"), "/")
		top, below, _ := strings.Cut(name, "/")
		file := h.Typeflag == tar.TypeReg && below == ""
		switch {
		case ofRoot(top):
			return ""
		case file && strings.HasSuffix(name, ".ovf"):
			return "an OVA archive"
		case file && isDiskName(name):
			return "an archive of a disk"
		case name == "oci-layout", name == "manifest.json", name == "repositories", top == "blobs",
			below == "layer.tar", below == "json":
			return "an archive of a container image"
		case file && name == "metadata.yaml", name == "rootfs.squashfs":
			return "an archive of a container image (LXD)"
		case top == "rootfs", strings.HasPrefix(top, "root."):
			return Format("a tar whose root is in the directory " + top)
		}
	}
}

// ofRoot reports whether a name is that of a directory in the root of every system.
func ofRoot(name string) bool {
	switch name {
	case "bin", "boot", "dev", "etc", "home", "lib", "lib64", "opt", "proc", "root", "run", "sbin", "sys", "tmp",
		"usr", "var":
		return true
	}
	return false
}

// isDiskName reports whether a file is named like the image of a disk. Google's images are a
// disk.raw in a tar.
func isDiskName(name string) bool {
	switch path.Ext(name) {
	case ".raw", ".img", ".qcow2", ".vmdk", ".vhd", ".vhdx", ".vdi", ".iso":
		return true
	}
	return false
}

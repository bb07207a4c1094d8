package imageformat_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/holdfast-metal/holdfast/internal/imageformat"
)

// with returns bytes with a signature at an offset.
func with(at int, sign string, size int) []byte {
	b := make([]byte, size)
	copy(b[at:], sign)
	return b
}

// mbr returns the start of a disk with one partition.
func mbr() []byte {
	b := make([]byte, 4096)
	b[0x1be+4] = 0x83
	binary.LittleEndian.PutUint32(b[0x1be+8:], 2048)
	binary.LittleEndian.PutUint32(b[0x1be+12:], 4096)
	b[0x1fe], b[0x1ff] = 0x55, 0xaa
	return b
}

// ext returns the start of an ext4 file system.
func ext() []byte {
	b := with(0x438, "\x53\xef", 8192)
	b[0x418] = 2
	return b
}

// qcow2 returns a header of version 3.
func qcow2(change func(b []byte)) []byte {
	b := with(0, "QFI\xfb\x00\x00\x00\x03", 512)
	binary.BigEndian.PutUint32(b[100:], 112)
	if change != nil {
		change(b)
	}
	return b
}

func tarOf(t *testing.T, names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Format: tar.FormatUSTAR}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(b)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstandard(t *testing.T, b []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(b, nil)
}

func TestCheckAccepts(t *testing.T) {
	protective := mbr()
	protective[0x1be+4] = 0xee
	large := append(mbr(), make([]byte, 1<<20)...)
	tests := []struct {
		name, format, compression string
		head                      []byte
	}{
		{"a disk with an MBR", "RAW", "NONE", mbr()},
		{"a disk with a GPT", "RAW", "NONE", protective},
		{"a GPT for sectors of 4,096 bytes", "RAW", "NONE", with(4096, "EFI PART", 8192)},
		{"a root file system, ext4", "RAW", "NONE", ext()},
		{"a root file system, XFS", "RAW", "NONE", with(0, "XFSB", 4096)},
		{"a root file system, Btrfs", "RAW", "NONE", with(0x10040, "_BHRfS_M", 0x11000)},
		{"a hybrid medium with a partition table", "RAW", "NONE", append(mbr(), with(32769-4096, "CD001", 40000)...)},
		{"a file system with a boot sector", "RAW", "NONE", append([]byte{0xeb}, mbr()[1:]...)},
		{"QCOW2", "QCOW2", "NONE", qcow2(nil)},
		{"QCOW2, version 2", "QCOW2", "NONE", with(0, "QFI\xfb\x00\x00\x00\x02", 512)},
		{"a tar", "TAR", "NONE", tarOf(t, "etc/")},
		{"a tar with files of its own", "TAR", "NONE", tarOf(t, ".dockerenv", "data/", "data/disk.raw", "etc/",
			"x.img")},
		{"a disk in gzip", "RAW", "GZIP", gzipped(t, mbr())},
		{"a disk in gzip, whose start is known", "RAW", "GZIP", gzipped(t, large)[:600]},
		{"a disk in zstd", "RAW", "ZSTD", zstandard(t, mbr())},
		{"a Btrfs in zstd", "RAW", "ZSTD", zstandard(t, with(0x10040, "_BHRfS_M", 0x20000))},
		{"a tar in zstd", "TAR", "ZSTD", zstandard(t, tarOf(t, "./", "./etc/"))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := imageformat.Check(tt.format, tt.compression, tt.head); err != nil {
				t.Errorf("got %v, want nil", err)
			}
		})
	}
}

func TestCheckRefuses(t *testing.T) {
	lzma := append([]byte{0x5d, 0, 0, 0x80, 0}, bytes.Repeat([]byte{0xff}, 64)...)
	kernel := with(0x1fe, "\x55\xaa\x00\x00HdrS", 1024)
	tests := []struct {
		name, format, compression string
		head                      []byte
		want                      string
	}{
		{"xz", "RAW", "NONE", with(0, "\xfd7zXZ\x00", 4096), "compressed with xz"},
		{"bzip2", "RAW", "NONE", with(0, "BZh91AY&SY", 4096), "compressed with bzip2"},
		{"lz4", "RAW", "NONE", with(0, "\x04\x22\x4d\x18", 4096), "compressed with lz4"},
		{"lzma", "RAW", "NONE", lzma, "compressed with lzma"},
		{"7z", "RAW", "NONE", with(0, "7z\xbc\xaf\x27\x1c", 4096), "7z"},
		{"zip", "RAW", "NONE", with(0, "PK\x03\x04", 4096), "zip"},
		{"VMDK", "RAW", "NONE", with(0, "KDMV", 4096), "VMDK"},
		{"VMDK, a descriptor", "RAW", "NONE", []byte("# Disk DescriptorFile\nversion=1\n"), "VMDK"},
		{"VHD", "RAW", "NONE", with(0, "conectix", 4096), "VHD"},
		{"VHDX", "RAW", "NONE", with(0, "vhdxfile", 4096), "VHDX"},
		{"VDI", "RAW", "NONE", with(0x40, "\x7f\x10\xda\xbe", 4096), "VDI"},
		{"QED", "RAW", "NONE", with(0, "QED\x00", 4096), "QED"},
		{"ISO 9660", "RAW", "NONE", with(32769, "CD001", 40000), "ISO 9660"},
		{"a kernel", "RAW", "NONE", kernel, "a Linux kernel"},
		{"SquashFS", "RAW", "NONE", with(0, "hsqs", 4096), "SquashFS"},
		{"an error page", "RAW", "NONE", []byte("<!DOCTYPE html><html>404</html>"), "error page"},
		{"noise", "RAW", "NONE", bytes.Repeat([]byte{0xa7, 0x13}, 4096), "of no known format"},
		{"zeros", "RAW", "NONE", make([]byte, 65536), "of no known format"},
		{"nothing", "RAW", "NONE", nil, "of no known format"},
		{"a boot sector without partitions", "RAW", "NONE", with(0x1fe, "\x55\xaa", 4096), "of no known format"},
		{"QCOW2 declared as raw", "RAW", "NONE", qcow2(nil), "set its format to qcow2"},
		{"a tar declared as raw", "RAW", "NONE", tarOf(t, "etc/"), "set its format to tar"},
		{"a disk declared as a tar", "TAR", "NONE", mbr(), "set its format to raw"},
		{"a disk declared as QCOW2", "QCOW2", "NONE", mbr(), "set its format to raw"},
		{"gzip declared as plain", "RAW", "NONE", gzipped(t, mbr()), "set its compression to gzip"},
		{"a disk declared as gzip", "RAW", "GZIP", mbr(), "a disk with a boot sector"},
		{"zstd declared as gzip", "RAW", "GZIP", zstandard(t, mbr()), "set its compression to zstd"},
		{"gzip in gzip", "RAW", "GZIP", gzipped(t, gzipped(t, mbr())), "compressed with gzip"},
		{"xz in gzip", "RAW", "GZIP", gzipped(t, with(0, "\xfd7zXZ\x00", 4096)), "compressed with xz"},
		{"damaged gzip", "RAW", "GZIP",
			[]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff\xff\xff\xff"), "damaged"},
		{"QCOW version 1", "QCOW2", "NONE", with(0, "QFI\xfb\x00\x00\x00\x01", 512), "QCOW version 1"},
		{"a backing file", "QCOW2", "NONE", qcow2(func(b []byte) { b[15] = 1 }), "a backing file"},
		{"an encrypted QCOW2", "QCOW2", "NONE", qcow2(func(b []byte) { b[35] = 2 }), "encrypted"},
		{"an external data file", "QCOW2", "NONE", qcow2(func(b []byte) { b[79] = 4 }), "an external data file"},
		{"clusters in zstd", "QCOW2", "NONE", qcow2(func(b []byte) { b[79], b[104] = 8, 1 }), "compressed with zstd"},
		{"an unknown feature", "QCOW2", "NONE", qcow2(func(b []byte) { b[73] = 1 }), "unknown features"},
		{"an OVA", "TAR", "NONE", tarOf(t, "vm.ovf", "vm.vmdk"), "an OVA archive"},
		{"a disk in a tar, as of Google", "TAR", "NONE", tarOf(t, "disk.raw"), "an archive of a disk"},
		{"a disk with its sum in a tar", "TAR", "GZIP", gzipped(t, tarOf(t, "./SHA256SUMS", "./azure.vhd")),
			"an archive of a disk"},
		{"a container image of LXD", "TAR", "NONE", tarOf(t, "metadata.yaml", "templates/"), "(LXD)"},
		{"a container image of docker save", "TAR", "NONE", tarOf(t, "0123/", "0123/layer.tar"), "a container image"},
		{"a root in a directory", "TAR", "ZSTD", zstandard(t, tarOf(t, "root.x86_64/", "root.x86_64/etc/")),
			"root.x86_64"},
		{"a container image", "TAR", "NONE", tarOf(t, "oci-layout"), "a container image"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := imageformat.Check(tt.format, tt.compression, tt.head)
			if e, ok := errors.AsType[*imageformat.Error](err); !ok || !strings.Contains(e.Error(), tt.want) {
				t.Errorf("got %v, want an *Error with %q", err, tt.want)
			}
		})
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("RAW", "NONE", mbr())
	f.Add("QCOW2", "NONE", qcow2(nil))
	f.Add("TAR", "GZIP", []byte("\x1f\x8b"))
	f.Fuzz(func(_ *testing.T, format, compression string, head []byte) {
		_ = imageformat.Check(format, compression, head) // it must not panic
	})
}

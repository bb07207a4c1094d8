package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

const cluster = 64 << 10

// qcow2Of returns an image of a disk, with holes for zeros.
func qcow2Of(plain []byte) []byte {
	b := make([]byte, 3*cluster) // header, one table, and another one below it
	copy(b, "QFI\xfb")
	for at, v := range map[int]uint32{4: 2, 20: 16, 36: 1} {
		binary.BigEndian.PutUint32(b[at:], v)
	}
	const copied = 1 << 63
	for at, v := range map[int]uint64{24: uint64(len(plain)), 40: cluster, cluster: copied | 2*cluster} {
		binary.BigEndian.PutUint64(b[at:], v)
	}
	for i := 0; i*cluster < len(plain); i++ {
		data := make([]byte, cluster)
		copy(data, plain[i*cluster:])
		if !bytes.Equal(data, make([]byte, cluster)) {
			binary.BigEndian.PutUint64(b[2*cluster+8*i:], copied|uint64(len(b)))
			b = append(b, data...)
		}
	}
	return b
}

// ofQEMU returns an image made by qemu-img, with compressed clusters.
func ofQEMU(t *testing.T, plain []byte) []byte {
	t.Helper()
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("NOT TESTED: qemu-img not found")
	}
	dir := t.TempDir()
	raw, out := filepath.Join(dir, "raw"), filepath.Join(dir, "qcow2")
	if err := os.WriteFile(raw, plain, 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), "qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c", raw,
		out).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img: %v: %s", err, output)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestQCOW2(t *testing.T) {
	plain := picture()
	clear(plain[3<<20 : 4<<20])
	for _, by := range []string{"hand", "qemu-img"} {
		for _, kind := range []string{"NONE", "GZIP", "ZSTD"} {
			t.Run(by+", "+kind, func(t *testing.T) {
				disk := qcow2Of(plain)
				if by == "qemu-img" {
					disk = ofQEMU(t, plain)
				}
				sent, f, temp := packed(t, kind, disk), newDisk(8<<20), t.TempDir()
				var percent atomic.Int64
				d := NewDownload(t.Context(), DownloadConfig{Name: "x", URLs: []string{serve(t, cut(1<<20), sent)},
					Size: int64(len(sent))})
				job := Job{Name: "x", SHA256: sumOf(sent), Compression: kind, Format: "QCOW2", TempDir: temp, DiskSize: 8 << 20,
					Progress: func(p int) {
						if int64(p) < percent.Swap(int64(p)) || p > 100 {
							t.Errorf("got progress %d", p)
						}
					}}
				got, err := job.Write(t.Context(), d, f)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(f[:imageSize], plain) || got.ImageBytes < imageSize || percent.Load() != 100 {
					t.Errorf("got a disk without the image: %+v, %d %%", got, percent.Load())
				}
				if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
					t.Errorf("got remaining files %v, %v", left, err)
				}
			})
		}
	}
}

// Nothing is written of an invalid image.
func TestQCOW2Fails(t *testing.T) {
	disk := qcow2Of(picture())
	backed := bytes.Clone(disk)
	binary.BigEndian.PutUint64(backed[8:], 512)
	binary.BigEndian.PutUint32(backed[16:], uint32(copy(backed[512:], "/etc/shadow")))
	encrypted := bytes.Clone(disk)
	binary.BigEndian.PutUint32(encrypted[32:], 1)
	for _, tt := range []struct {
		name string
		sent []byte
		sum  string
		size int
		temp string
		want string
	}{
		{"a wrong sum", disk, sumOf(nil), 8 << 20, "", "checksum of image debian is " + sumOf(disk)},
		{"small disk", disk, sumOf(disk), 4 << 20, "",
			fmt.Sprintf("needs a disk of %d bytes (5 MB) and this one has 4194304 (4 MB): nothing was written", imageSize)},
		{"a backing file", backed, sumOf(backed), 8 << 20, "", "it is QCOW2 with a backing file"},
		{"encrypted", encrypted, sumOf(encrypted), 8 << 20, "", "it is QCOW2 that is encrypted"},
		{"a raw image", picture(), sumOf(picture()), 8 << 20, "", "declared as QCOW2, but it is a disk with a boot sector"},
		{"a few bytes", []byte("QFI"), sumOf([]byte("QFI")), 8 << 20, "", "declared as QCOW2, but it is text"},
		{"nowhere to keep it", disk, sumOf(disk), 8 << 20, "/nowhere", "store image debian"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.temp == "" {
				tt.temp = t.TempDir()
			}
			f := newDisk(tt.size)
			d := NewDownload(t.Context(), DownloadConfig{Name: "debian", URLs: []string{serve(t, nil, tt.sent)}})
			_, err := (Job{Name: "debian", SHA256: tt.sum, Compression: "NONE", Format: "QCOW2", TempDir: tt.temp,
				DiskSize: uint64(tt.size)}).Write(t.Context(), d, f)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v\nwant %q", err, tt.want)
			}
			if !bytes.Equal(f, newDisk(tt.size)) {
				t.Error("got a write to the disk")
			}
		})
	}
}

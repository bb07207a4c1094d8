//go:build linux

package installer

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// xfs and btrfs file systems grow with their partition, and are sound afterwards.
func TestQEMUGrows(t *testing.T) {
	lab(t)
	tests := []struct {
		kind string
		size int // of the root in the image, as small as the file system allows
		make func(t *testing.T, tree, part string)
		has  func(part []byte) uint64 // size of the file system in bytes
		fsck []string
	}{
		{"xfs", 320 * mib, func(t *testing.T, tree, part string) {
			proto := filepath.Join(t.TempDir(), "proto")
			lines := []string{"-", "0 0", "d--755 0 0", "etc d--755 0 0", "os-release ---644 0 0 " +
				filepath.Join(tree, "etc/os-release"), "$", "$", ""}
			if err := os.WriteFile(proto, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			sh(t, "mkfs.xfs", "-q", "-p", proto, part)
		}, func(part []byte) uint64 { // sb_dblocks and sb_blocksize
			return binary.BigEndian.Uint64(part[8:]) * uint64(binary.BigEndian.Uint32(part[4:]))
		}, []string{"xfs_repair", "-n", "-f"}},
		{"btrfs", 200 * mib, // 128 suffices, but the kernel grows none to less than 256
			func(t *testing.T, tree, part string) { sh(t, "mkfs.btrfs", "-q", "--rootdir", tree, part) },
			func(part []byte) uint64 { return binary.LittleEndian.Uint64(part[0x10000+0x70:]) }, // total_bytes
			[]string{"btrfs", "check", "--readonly"}},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			tree := t.TempDir()
			if err := os.Mkdir(filepath.Join(tree, "etc"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(tree, "etc/os-release"), []byte("ID=lab\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			part := filepath.Join(t.TempDir(), "root.img")
			if err := os.WriteFile(part, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(part, int64(tt.size)); err != nil {
				t.Fatal(err)
			}
			tt.make(t, tree, part)
			plain := append(make([]byte, mib), read(t, part)...)
			plain[510], plain[511] = 0x55, 0xaa
			plain[446+4] = 0x83
			binary.LittleEndian.PutUint32(plain[446+8:], mib/512)
			binary.LittleEndian.PutUint32(plain[446+12:], uint32(tt.size/512))
			if has := tt.has(plain[mib:]); has != uint64(tt.size) {
				t.Fatalf("%s of the image: got %d bytes, want %d", tt.kind, has, tt.size)
			}

			large := tt.size + 96*mib
			p, target := labPeer(t, plain, ""), medium(t, large)
			box(t, p, drive{file: target, serial: "DISK-A"})
			if last := p.Last(); last.Status != "complete" {
				t.Fatalf("got last report %+v", last)
			}
			disk := read(t, target)
			if has := tt.has(disk[mib:]); has < uint64(large-2*mib) {
				t.Errorf("root: got %d bytes on a disk of %d\n%s", has, large, p.Log())
			}
			if err := os.WriteFile(part, disk[mib:], 0o600); err != nil {
				t.Fatal(err)
			}
			sh(t, tt.fsck[0], append(tt.fsck[1:], part)...)
			if key := strings.Fields(p.Last().HostKeys[0])[1]; !bytes.Contains(disk, []byte(key)) {
				t.Errorf("got no host key %s on the disk", key)
			}
		})
	}
}

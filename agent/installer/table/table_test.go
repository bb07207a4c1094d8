package table

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
)

const (
	mib       = 1 << 20
	imageSize = 8 * mib
	diskSize  = 32*mib + 3*sector
)

// disk creates a file with the size of a disk and an image at its start.
func disk(t *testing.T, image []byte) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.Write(image); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(diskSize); err != nil {
		t.Fatal(err)
	}
	return f
}

// mbrImage returns an image with two partitions, of which the last one on disk is the first in the
// table.
func mbrImage(kind byte) []byte {
	b := make([]byte, imageSize)
	b[510], b[511] = 0x55, 0xaa
	put := func(i int, status, kind byte, start, count uint32) {
		e := b[mbrEntries+i*mbrEntrySize:]
		e[0], e[4] = status, kind
		binary.LittleEndian.PutUint32(e[8:], start)
		binary.LittleEndian.PutUint32(e[12:], count)
	}
	copy(b, "boot code")
	put(0, 0, kind, 4096, 8192)
	put(1, 0x80, 0xef, 2048, 2048)
	return b
}

// gptImage returns an image with an EFI system partition before a root, boot code, and a flag on
// the protective entry.
func gptImage(t *testing.T) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := f.Truncate(imageSize); err != nil {
		t.Fatal(err)
	}
	table := &gpt.Table{ProtectiveMBR: true, LogicalSectorSize: sector, PhysicalSectorSize: sector,
		Partitions: []*gpt.Partition{
			{Index: 1, Start: 2048, End: 4095, Type: gpt.EFISystemPartition, Name: "esp", Attributes: 1},
			{Index: 14, Start: 4096, End: 12287, Type: gpt.LinuxFilesystem, Name: "root"},
		}}
	if err := table.Write(f, imageSize); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, imageSize)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	copy(b, "boot code")
	b[mbrEntries] = 0x80
	return b
}

func TestFits(t *testing.T) {
	image := gptImage(t)[:mib]
	large := make([]byte, mib) // the protective MBR, and the GPT behind one large sector
	copy(large, mbrImage(typeGPT)[:sector])
	large[mbrEntries+mbrEntrySize+4] = 0
	copy(large[4096:], "EFI PART")
	both := bytes.Clone(large)
	copy(both[sector:], "EFI PART")
	boot := mbrImage(0x83)[:mib] // of a file system without a table
	boot[mbrEntries] = 'x'
	tests := []struct {
		name  string
		head  []byte
		large bool // fits a disk with sectors of 4096 bytes; all fit one of 512
	}{
		{"nothing", nil, true},
		{"a byte", []byte{1}, true},
		{"no table", make([]byte, mib), true},
		{"a file system", boot, true},
		{"MBR", mbrImage(0x83)[:mib], false},
		{"GPT", image, false},
		{"GPT for large sectors", large, true},
		{"both", both, true},
		{"GPT, without its MBR", append(make([]byte, sector), image[sector:]...), false},
		{"GPT, cut short", image[:sector+8], false},
	}
	for _, tt := range tests {
		if got := Fits(tt.head, 4096); got != tt.large {
			t.Errorf("%s: sectors of 4096 bytes: got %v, want %v", tt.name, got, tt.large)
		}
		if !Fits(tt.head, sector) {
			t.Errorf("%s: sectors of 512 bytes: got a refusal", tt.name)
		}
	}
}

func TestNeed(t *testing.T) {
	image := gptImage(t)
	tests := []struct {
		name string
		head []byte
		want uint64
	}{
		{"nothing", nil, 0},
		{"no table", make([]byte, mib), 0},
		{"MBR", mbrImage(0x83)[:mib], (4096 + 8192) * sector},
		{"GPT", image[:mib], 12288*sector + 33*sector},
		{"the start of a GPT", image[:2*sector], 0},
		{"the start of a FAT file system", append(append(bytes.Repeat([]byte{0xeb}, 510), 0x55, 0xaa),
			make([]byte, 512)...), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Need(tt.head); got != tt.want {
				t.Errorf("Need: got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestGrowMBR(t *testing.T) {
	image := mbrImage(0x83)
	f := disk(t, image)
	did, err := Grow(f, diskSize)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, imageSize)
	if _, err := f.ReadAt(got, 0); err != nil {
		t.Fatal(err)
	}
	want := bytes.Clone(image)
	binary.LittleEndian.PutUint32(want[mbrEntries+12:], 32*mib/sector-4096)
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got more changes than the size of the last partition", did)
	}
	if did, err := Grow(f, diskSize); err != nil || !strings.Contains(did, "reaches the end") {
		t.Errorf("second time: got %q, %v", did, err)
	}
}

func TestGrowGPT(t *testing.T) {
	image := gptImage(t)
	f := disk(t, image)
	for range 2 { // the second time changes nothing
		did, err := Grow(f, diskSize)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(did)
		table, err := gpt.Read(f, sector, sector)
		if err != nil {
			t.Fatal(err)
		}
		if table.RecoveredFromBackup {
			t.Error("got a broken table at the start")
		}
		if err := table.Verify(f, diskSize); err != nil {
			t.Errorf("copy at the end: %v", err)
		}
		var esp, root *gpt.Partition
		for _, p := range table.Partitions {
			switch p.Name {
			case "esp":
				esp = p
			case "root":
				root = p
			}
		}
		if esp == nil || esp.End != 4095 || esp.Attributes != 1 || esp.Index != 1 {
			t.Errorf("got a changed first partition: %+v", esp)
		}
		if root == nil || root.Start != 4096 || root.Index != 14 || root.End != 31*mib/sector-1 &&
			root.End != 32*mib/sector-1 {
			t.Errorf("got last partition %+v", root)
		}
		front := make([]byte, sector)
		if _, err := f.ReadAt(front, 0); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(front), "boot code") || front[mbrEntries] != 0x80 {
			t.Error("got no boot code or boot flag")
		}
		if got := binary.LittleEndian.Uint32(front[mbrEntries+12:]); got != diskSize/sector-1 {
			t.Errorf("protective entry: got %d sectors, want %d", got, diskSize/sector-1)
		}
	}
}

func TestGrowChangesNothing(t *testing.T) {
	tests := []struct {
		name  string
		image []byte
		want  string
	}{
		{"no table", make([]byte, imageSize), "no partition table"},
		{"an extended partition", mbrImage(typeExtended), "not grown"},
		{"an empty table", append(append(make([]byte, 510), 0x55, 0xaa), make([]byte, 512)...), "empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := disk(t, tt.image)
			did, err := Grow(f, diskSize)
			if err != nil || !strings.Contains(did, tt.want) {
				t.Fatalf("Grow: got %q, %v, want %q", did, err, tt.want)
			}
			got := make([]byte, len(tt.image))
			if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, tt.image) {
				t.Errorf("got a changed disk (%v)", err)
			}
		})
	}
}

func TestGrowRefusesSmallDisk(t *testing.T) {
	if _, err := Grow(disk(t, gptImage(t)), imageSize-mib); err == nil {
		t.Error("Grow on a small disk: got no error")
	}
}

func FuzzNeed(f *testing.F) {
	f.Add(mbrImage(0x83)[:1024])
	f.Add(make([]byte, 1024))
	f.Fuzz(func(_ *testing.T, head []byte) { Need(head) })
}

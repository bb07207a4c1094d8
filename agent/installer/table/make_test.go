package table

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/google/go-cmp/cmp"
)

// The partitions are where firmware and GRUB expect them, extend to the end of the disk, and need
// not be grown.
func TestMake(t *testing.T) {
	for _, size := range []uint64{Least, Least + 25*sector, 5 << 40} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			if err := f.Truncate(int64(size)); err != nil {
				t.Skipf("NOT TESTED: files of this size are not possible here: %v", err)
			}
			if err := Make(f, size); err != nil {
				t.Fatal(err)
			}
			table, err := gpt.Read(f, sector, sector)
			if err != nil || table.RecoveredFromBackup {
				t.Fatalf("read the table: %v, from its copy: %v", err, table.RecoveredFromBackup)
			}
			if err := table.Verify(f, size); err != nil {
				t.Error(err)
			}
			got := []string{}
			for _, p := range table.Partitions {
				if p.Type == gpt.Unused {
					continue
				}
				got = append(got, fmt.Sprint(p.Index, " ", p.Name, " ", p.Start, " ", p.Type))
				if p.Index == NumberRoot && (size/sector-p.End > 2*align || (p.End+1)%align != 0 || p.End > size/sector-34) {
					t.Errorf("end of the root: got sector %d of %d", p.End, size/sector)
				}
			}
			want := []string{"1 bios 2048 21686148-6449-6E6F-744E-656564454649",
				"2 esp 4096 C12A7328-F81F-11D2-BA4B-00A0C93EC93B", "3 root 528384 0FC63DAF-8483-4772-8E79-3D69D8477DE4"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("partitions (-want +got):\n%s", diff)
			}
			if s, ok, err := FindSystem(f); err != nil || !ok || s.Partition != NumberSystem || s.Start != 4096 ||
				s.Count != 256*align {
				t.Errorf("EFI system partition: got %+v, %v, %v", s, ok, err)
			}
			if did, err := Grow(f, size); err != nil || !strings.Contains(did, "already ends there") {
				t.Errorf("grow: got %q, %v", did, err)
			}
			head := make([]byte, sector)
			if _, err := f.ReadAt(head, 0); err != nil {
				t.Fatal(err)
			}
			if entries, ok := mbr(head); !ok || entries[0].kind != typeGPT ||
				uint64(entries[0].count) != min(size/sector-1, 1<<32-1) || strings.Trim(string(head[:mbrEntries]), "\x00") != "" {
				t.Errorf("protective MBR: got %+v", entries)
			}
		})
	}
	if err := Make(nil, Least-1); err == nil || !strings.Contains(err.Error(), "want at least 1073741824") {
		t.Errorf("small disk: got %v", err)
	}
}

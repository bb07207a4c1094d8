package diskrule

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fleet returns the disks of a server: two NVMe, a large rotational disk, a USB stick and a virtual
// CD of the BMC.
func fleet() []Disk {
	return []Disk{
		{Name: "nvme0n1", Serial: "S4EVNX0M", WWN: "eui.0025388a91b0", Model: "SAMSUNG MZQLB960HAJR-00007",
			SizeBytes: 960197124096},
		{Name: "nvme1n1", Serial: "S4EVNX0N", WWN: "eui.0025388a91b1", Model: "SAMSUNG MZQLB960HAJR-00007",
			SizeBytes: 960197124096},
		{Name: "sda", Serial: "ZL2A1", WWN: "0x5000c500c8a1b2c3", Model: "ST8000NM000A/X", SizeBytes: 8001563222016,
			Rotational: true},
		{Name: "sdb", Serial: "STICK", Model: "DataTraveler", SizeBytes: 16008609792, Removable: true},
		{Name: "sdc", Model: "Virtual CDROM", SizeBytes: 700 << 20, ReadOnly: true},
		{Name: "sdd", Model: "Card Reader"},
	}
}

func TestChoose(t *testing.T) {
	tests := []struct {
		rule string
		want string // the name, or a part of the error
	}{
		{"", "3 disks qualify"},
		{"name=nvme1n1", "nvme1n1"},
		{"name=/dev/nvme0n1", "nvme0n1"},
		{"serial=S4EVNX0N", "nvme1n1"},
		{" serial = S4EVNX0M ", "nvme0n1"},
		{"wwn=0025388A91B1", "nvme1n1"},
		{"wwn=naa.5000c500c8a1b2c3", "sda"},
		{"model=st8000*", "sda"},
		{"model=*nm000a/x", "sda"},
		{"model=*", "3 disks qualify"},
		{"rotational=true", "sda"},
		{"rotational=false", "2 disks qualify and nothing was written: nvme0n1 (960.2 GB, model SAMSUNG " +
			"MZQLB960HAJR-00007, serial S4EVNX0M, wwn eui.0025388a91b0); nvme1n1"},
		{"min_size=4T", "sda"},
		{"max_size=1T,by=largest", "2 disks qualify"},
		{"by=largest", "sda"},
		{"by=smallest,name=nvme0n1", "nvme0n1"},
		{"name=sdb", "it is removable"},
		{"name=sdc", "it is read-only"},
		{"name=sdd", "it has no medium"},
		{"serial=NOPE", "no disk qualifies; seen: nvme0n1"},
		{"min_size=9T", "sda (8 TB, model ST8000NM000A/X, serial ZL2A1, wwn 0x5000c500c8a1b2c3, rotational): it is " +
			"smaller than 9 TB"},
		{"max_size=1Gi", "it is larger than 1.1 GB"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			r, err := Parse(tt.rule)
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.Choose(fleet())
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				return
			}
			if got.Name != tt.want {
				t.Errorf("got %s, want %s", got.Name, tt.want)
			}
		})
	}
}

func TestChooseOnlyDisk(t *testing.T) {
	got, err := Rule{}.Choose(fleet()[2:])
	if err != nil || got.Name != "sda" {
		t.Errorf("got %s, %v, want sda", got.Name, err)
	}
	if _, err := (Rule{}).Choose(nil); err == nil || !strings.Contains(err.Error(), "the machine has no disk") {
		t.Errorf("got %v, want no disk", err)
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ rule, want string }{
		{"sda", "is not a condition"},
		{"name=sda,", "is not a condition"},
		{"name=", "name has no value"},
		{"name=a,name=b", "duplicate key name"},
		{"size=3", `unknown key "size"`},
		{"min_size=0", "above 0"},
		{"min_size=-1", "whole number"},
		{"min_size=1.5T", "whole number"},
		{"min_size=99999999T", "whole number"},
		{"rotational=yes", "use true or false"},
		{"by=first", "use smallest or largest"},
		{"min_size=2T,max_size=1T", "min_size is above max_size"},
		{strings.Repeat("x", maxRule+1), "at most"},
	}
	for _, tt := range tests {
		if _, err := Parse(tt.rule); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40q: got %v, want %q", tt.rule, err, tt.want)
		}
	}
}

func TestParseSize(t *testing.T) {
	tests := map[string]uint64{"1": 1, "512B": 512, "10K": 10000, "10Ki": 10240, "1GB": 1e9, "2GiB": 2 << 30, "3 T": 3e12}
	got := map[string]uint64{}
	for text := range tests {
		n, err := parseSize(text)
		if err != nil {
			t.Error(err)
		}
		got[text] = n
	}
	if diff := cmp.Diff(tests, got); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
}

// The choice does not depend on the order in which the kernel found the disks, and is always a disk
// that may be installed to.
func TestChoiceIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		disks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Disk {
			return Disk{
				Name: rapid.StringMatching(`sd[a-e]`).Draw(t, "name"), Serial: rapid.StringMatching(`[AB]`).Draw(t, "serial"),
				SizeBytes: rapid.Uint64Range(0, 3).Draw(t, "size"), Rotational: rapid.Bool().Draw(t,
					"turns"), Removable: rapid.Bool().Draw(t, "removable"),
			}
		}), 0, 5).Draw(t, "disks")
		rule, err := Parse(rapid.SampledFrom([]string{"", "by=smallest", "by=largest", "serial=A",
			"rotational=true,by=largest", "min_size=2"}).Draw(t, "rule"))
		if err != nil {
			t.Fatal(err)
		}
		first, errFirst := rule.Choose(disks)
		second, errSecond := rule.Choose(rapid.Permutation(disks).Draw(t, "again"))
		if first != second || (errFirst == nil) != (errSecond == nil) {
			t.Fatalf("got %v, %v, then %v, %v", first, errFirst, second, errSecond)
		}
		if errFirst == nil && (first.Removable || first.ReadOnly || first.SizeBytes == 0) {
			t.Fatalf("chose %v", first)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "name=sda", "serial=X,by=smallest", "min_size=1Gi,max_size=2T,rotational=false",
		"model=*[a", "wwn=0x5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(r.String())
		if err != nil {
			t.Fatalf("parse %q, printed as %q: %v", text, r, err)
		}
		if again.String() != r.String() {
			t.Fatalf("%q: got %q, then %q", text, r, again)
		}
		_, _ = r.Choose(fleet())
	})
}

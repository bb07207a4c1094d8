package disks

import (
	"encoding/binary"
	"testing"
)

// A format must not affect a namespace that no rule has chosen.
func TestFormatAffectsNoOther(t *testing.T) {
	tests := []struct {
		name  string
		fna   byte
		nsid  uint32
		there []uint32
		want  string
	}{
		{"only namespace", 3, 1, []uint32{1}, ""},
		{"formats are per namespace", 0, 1, []uint32{1, 2}, ""},
		{"other bits", 0xfc, 1, []uint32{1, 2}, ""},
		{"formats affect all", 1, 1, []uint32{1, 2},
			"a format of namespace 1 would also erase namespace 2 of this controller (FNA 0x1)"},
		{"secure erases affect all", 2, 2, []uint32{1, 2},
			"a format of namespace 2 would also erase namespace 1 of this controller (FNA 0x2)"},
		{"full list", 1, 1, full(),
			"a format of namespace 1 would also erase namespace 2 of this controller (FNA 0x1)"},
		{"list without the namespace", 1, 7, []uint32{3},
			"a format of namespace 7 would also erase namespace 3 of this controller (FNA 0x1)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			controller, there := make([]byte, 4096), make([]byte, 4096)
			controller[524] = tt.fna
			for i, n := range tt.there {
				binary.LittleEndian.PutUint32(there[4*i:], n)
			}
			got := ""
			if err := alone(controller, there, tt.nsid); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func full() (all []uint32) {
	for n := range uint32(1024) {
		all = append(all, n+1)
	}
	return all
}

func TestManagesNamespaces(t *testing.T) {
	for oacs, want := range map[uint16]bool{0: false, 1 << 3: true, 0xfff7: false} {
		controller := make([]byte, 4096)
		binary.LittleEndian.PutUint16(controller[256:], oacs)
		if got := managesNamespaces(controller); got != want {
			t.Errorf("OACS %#x: got %v, want %v", oacs, got, want)
		}
	}
}

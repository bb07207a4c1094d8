package efi

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/agent/installer/table"
)

func order(numbers ...uint16) (b []byte) {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint16(b, n)
	}
	return b
}

// The bytes follow the specification, field by field.
func TestOption(t *testing.T) {
	l := Loader{table.System{Partition: 15, Start: 2048, Count: 260096, GPT: true,
		ID: [16]byte{0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0, 0xa0, 0xc9, 0x3e, 0xc9,
			0x3b}}, `\EFI\A`}
	want := "01000000" + "4000" + // active; length of the paths
		"48006f006c0064006600610073007400" + "0000" +
		"04012a00" + "0f000000" + "0008000000000000" + "00f8030000000000" + "28732ac11ff8d211ba4b00a0c93ec93b" + "0202" +
		"04041200" + "5c004500460049005c0041000000" +
		"7fff0400"
	if diff := cmp.Diff(want, hex.EncodeToString(l.option())); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
}

func TestEnter(t *testing.T) {
	l := Loader{table.System{Partition: 1, Start: 2048, Count: 2048, GPT: true}, `\EFI\BOOT\BOOTX64.EFI`}
	old := Loader{table.System{Partition: 3, GPT: true}, `\EFI\OLD`}
	other := append([]byte{1, 0, 0, 0, 4, 0, 'P', 0, 'X', 0, 'E', 0, 0, 0}, 0x7f, 0xff, 4, 0)
	tests := []struct {
		name  string
		vars  map[string][]byte
		want  string
		order []byte
	}{
		{"a firmware without entries", nil, "Boot0000", order(0)},
		{"disk before another disk", map[string][]byte{"Boot0000": other, "Boot0001": other,
			"BootOrder": order(0, 1), "BootCurrent": order(1)}, "Boot0002", order(2, 0, 1)},
		{"the network stays first", map[string][]byte{"Boot0000": other, "Boot0001": other, "BootOrder": order(1, 0),
			"BootCurrent": order(1)}, "Boot0002", order(1, 2, 0)},
		{"an entry of an earlier installation", map[string][]byte{"Boot0000": other, "Boot0007": old.option(),
			"BootOrder": order(0, 7), "BootCurrent": order(0)}, "Boot0007", order(0, 7)},
		{"first entry of an earlier installation",
			map[string][]byte{"Boot0001": other, "Boot0007": old.option(), "BootOrder": order(7, 1),
				"BootCurrent": order(1)}, "Boot0007", order(7, 1)},
		{"number without a variable", map[string][]byte{"Boot0000": other, "BootOrder": order(0, 1)}, "Boot0002",
			order(2, 0, 1)},
		{"only the earlier entry", map[string][]byte{"Boot0000": old.option(), "BootOrder": order(0),
			"BootCurrent": order(0)}, "Boot0000", order(0)},
		{"unnumbered variable", map[string][]byte{"BootOptionSupport": {1, 0, 0, 0}, "BootOrder": nil},
			"Boot0000", order(0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, data := range tt.vars {
				if err := write(dir, name, data); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Enter(dir, l)
			if err != nil || got != tt.want {
				t.Fatalf("Enter: got %q, %v, want %s", got, err, tt.want)
			}
			for name, data := range map[string][]byte{"BootOrder": tt.order, tt.want: l.option()} {
				b, err := os.ReadFile(filepath.Join(dir, name+global))
				if err != nil {
					t.Fatal(err)
				}
				b = b[:min(len(b), 4+len(data))] // a file keeps the rest of a longer value, unlike a variable
				if diff := cmp.Diff(append([]byte{7, 0, 0, 0}, data...), b); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
			for name, data := range tt.vars {
				if !strings.HasPrefix(name, "Boot0") || name == tt.want {
					continue
				}
				if b, err := read(dir, name); err != nil || !cmp.Equal(b, data) {
					t.Errorf("%s of others: got %x, %v", name, b, err)
				}
			}
		})
	}
	if name, err := Enter(filepath.Join(t.TempDir(), "none"), l); err == nil {
		t.Errorf("without variables: got %s, want an error", name)
	}
	short := t.TempDir()
	if err := os.WriteFile(filepath.Join(short, "BootOrder"+global), []byte{1}, 0o600); err != nil {
		t.Fatal(err)
	}
	if name, err := Enter(short, l); err == nil || !strings.Contains(err.Error(), "it has 1 bytes") {
		t.Errorf("invalid variable: got %s, %v", name, err)
	}
}

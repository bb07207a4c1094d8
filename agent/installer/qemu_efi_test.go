//go:build linux

package installer

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
)

// uefi returns QEMU's arguments for OVMF, and the file of its variables.
func uefi(t *testing.T) (vars string, args []string) {
	t.Helper()
	code, empty := "/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"
	vars = filepath.Join(t.TempDir(), "vars.fd")
	if err := os.WriteFile(vars, read(t, empty), 0o600); err != nil {
		t.Fatal(err)
	}
	return vars, []string{"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=" + code, "-drive",
		"if=pflash,format=raw,unit=1,file=" + vars}
}

// With UEFI, the installer creates a boot entry of the loader that the image has at the fallback
// path. A second installation reuses it.
func TestQEMUBootEntry(t *testing.T) {
	lab(t)
	plain := osImage(t, "mbr")
	esp := filepath.Join(t.TempDir(), "esp.img")
	if err := os.WriteFile(esp, make([]byte, noiseSize), 0o600); err != nil {
		t.Fatal(err)
	}
	sh(t, "mkfs.vfat", "-F", "12", esp)
	loader := filepath.Join(t.TempDir(), "BOOTX64.EFI")
	if err := os.WriteFile(loader, []byte("a boot loader"), 0o600); err != nil {
		t.Fatal(err)
	}
	sh(t, "mmd", "-i", esp, "::/EFI", "::/EFI/BOOT")
	sh(t, "mcopy", "-i", esp, loader, "::/EFI/BOOT/BOOTX64.EFI")
	copy(plain[noiseStart:], read(t, esp))
	plain[446+4] = 0xef
	copy(plain[440:], "\x11\x22\x33\x44")

	vars, firmware := uefi(t)
	target := medium(t, largeDisk)
	for range 2 {
		p := labPeer(t, plain, "")
		poweredWith(t, p, nil, firmware, drive{file: target, serial: "DISK-A"})
		if last := p.Last(); last.Status != "complete" || !strings.Contains(p.Log(), "boot entry created") {
			t.Fatalf("got last report %+v\n%s", last, p.Log())
		}
	}
	var title []byte
	for _, u := range utf16.Encode([]rune("Holdfast\x00")) {
		title = binary.LittleEndian.AppendUint16(title, u)
	}
	// Hard drive, partition 1, its place, the disk's number, MBR.
	path := "\x04\x01\x2a\x00\x01\x00\x00\x00" + "\x00\x08\x00\x00\x00\x00\x00\x00" +
		"\x00\x20\x00\x00\x00\x00\x00\x00" + "\x11\x22\x33\x44" + strings.Repeat("\x00", 12) + "\x01\x01"
	if store := read(t, vars); !bytes.Contains(store, append(title, path...)) {
		t.Error("got no entry in the firmware's variables")
	}
}

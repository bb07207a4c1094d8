package chassis

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed guest.S
var guestSource []byte

// sector is the size of the guest, and of a disk's sector.
const sector = 512

// Guests are the files that a machine can boot.
type Guests struct {
	Disk string // an image of a disk
	Net  string // a directory served over TFTP, with a file NetFile
	CD   string // an image of a CD (El Torito, no emulation)
}

// NetFile is the name of the boot file in DHCP.
const NetFile = "guest"

// BuildGuests assembles the guests into a directory, with gcc.
func BuildGuests(ctx context.Context, dir string) (Guests, error) {
	g := Guests{Disk: filepath.Join(dir, "disk.img"), Net: filepath.Join(dir, "tftp"), CD: filepath.Join(dir, "cd.iso")}
	if err := os.MkdirAll(g.Net, 0o700); err != nil {
		return g, fmt.Errorf("build guests: %w", err)
	}
	source := filepath.Join(dir, "guest.S")
	if err := os.WriteFile(source, guestSource, 0o600); err != nil {
		return g, fmt.Errorf("build guests: %w", err)
	}
	for from, file := range map[string]string{
		"disk": g.Disk, "net": filepath.Join(g.Net, NetFile), "cd": filepath.Join(dir, "cd.bin"),
	} {
		cmd := exec.CommandContext(ctx, "gcc", "-x", "assembler-with-cpp", "-m32", "-nostdlib", "-static",
			`-DFROM="`+from+`"`,
			"-Wl,--build-id=none,-Ttext=0x7c00,--oformat=binary,-e,_start", "-o", file, source)
		if out, err := cmd.CombinedOutput(); err != nil {
			return g, fmt.Errorf("build guests: %w\n%s", err, out)
		}
	}
	boot, err := os.ReadFile(filepath.Join(dir, "cd.bin"))
	if err == nil {
		err = os.WriteFile(g.CD, elTorito(boot), 0o600)
	}
	if err == nil {
		err = os.Truncate(g.Disk, 1<<20) // a smaller disk has no geometry and cannot be booted
	}
	if err != nil {
		return g, fmt.Errorf("build guests: %w", err)
	}
	return g, nil
}

// cdSector is the size of a CD's sector.
const cdSector = 2048

// elTorito returns a CD that boots an image and contains nothing else (El Torito Bootable
// CD-ROM Format Specification 1.0, §2).
func elTorito(boot []byte) []byte {
	const primary, record, terminator, catalog, image, sectors = 16, 17, 18, 19, 20, 64
	cd := make([]byte, sectors*cdSector)
	at := func(n int) []byte { return cd[n*cdSector : (n+1)*cdSector] }
	descriptor := func(n int, kind byte) []byte {
		b := at(n)
		b[0], b[6] = kind, 1
		copy(b[1:], "CD001")
		return b
	}
	descriptor(primary, 1)
	copy(descriptor(record, 0)[7:], "EL TORITO SPECIFICATION")
	binary.LittleEndian.PutUint32(at(record)[0x47:], catalog)
	descriptor(terminator, 255)
	c := at(catalog)
	c[0], c[0x1e], c[0x1f] = 1, 0x55, 0xaa // validation entry, for x86
	sum := uint16(0)
	for i := 0; i < 32; i += 2 {
		sum += binary.LittleEndian.Uint16(c[i:])
	}
	binary.LittleEndian.PutUint16(c[0x1c:], -sum)
	c[0x20] = 0x88                                                             // bootable, no emulation, at 0x7c00
	binary.LittleEndian.PutUint16(c[0x26:], uint16(len(boot)+sector-1)/sector) // sectors to load
	binary.LittleEndian.PutUint32(c[0x28:], image)
	copy(at(image), boot)
	return cd
}

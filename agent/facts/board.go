package facts

import (
	"io/fs"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/facts/known"
)

// Board identifies the hardware of a machine. Unknown fields are empty.
type Board struct {
	Vendor string
	Model  string
	Serial string // readable by root only
	UUID   string // readable by root only
	// BootMode is uefi or bios, or empty if there is neither DMI nor EFI.
	BootMode string
}

// ReadBoard reads DMI, or the device tree if there is no DMI.
func ReadBoard(fsys fs.FS) Board {
	const dmi = "sys/class/dmi/id/"
	b := Board{
		Vendor: known.Text(line(fsys, dmi+"sys_vendor")),
		Model:  known.Text(line(fsys, dmi+"product_name")),
		Serial: firstKnown(
			line(fsys, dmi+"product_serial"), line(fsys, dmi+"chassis_serial"), line(fsys, dmi+"board_serial"),
		),
		UUID: strings.ToLower(known.Text(line(fsys, dmi+"product_uuid"))),
	}
	_, err := fs.Stat(fsys, "sys/class/dmi/id")
	hasDMI := err == nil
	if !hasDMI {
		b.Model = known.Text(line(fsys, "proc/device-tree/model"))
		b.Serial = known.Text(line(fsys, "proc/device-tree/serial-number"))
	}
	if _, err := fs.Stat(fsys, "sys/firmware/efi"); err == nil {
		b.BootMode = "uefi"
	} else if hasDMI {
		b.BootMode = "bios"
	}
	return b
}

func firstKnown(values ...string) string {
	for _, v := range values {
		if v = known.Text(v); v != "" {
			return v
		}
	}
	return ""
}

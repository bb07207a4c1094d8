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
		Vendor: Known(line(fsys, dmi+"sys_vendor")),
		Model:  Known(line(fsys, dmi+"product_name")),
		Serial: firstKnown(
			line(fsys, dmi+"product_serial"), line(fsys, dmi+"chassis_serial"), line(fsys, dmi+"board_serial"),
		),
		UUID: strings.ToLower(Known(line(fsys, dmi+"product_uuid"))),
	}
	_, err := fs.Stat(fsys, "sys/class/dmi/id")
	hasDMI := err == nil
	if !hasDMI {
		b.Model = Known(line(fsys, "proc/device-tree/model"))
		b.Serial = Known(line(fsys, "proc/device-tree/serial-number"))
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
		if v = Known(v); v != "" {
			return v
		}
	}
	return ""
}

// SameSerial reports whether two serial numbers are the same: see known.SameSerial.
func SameSerial(a, b string) bool { return known.SameSerial(a, b) }

// Known returns s, or "" if s is a placeholder: see known.Text.
func Known(s string) string { return known.Text(s) }

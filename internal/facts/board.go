package facts

import (
	"io/fs"
	"strings"
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

// counts reports whether a text only counts upwards, such as 1234567890 or 01234567890123456789AB.
func counts(s string) bool {
	const shortest = 6
	for i := 1; i < len(s); i++ {
		a, b := s[i-1], s[i]
		digit := a >= '0' && a <= '9' && (b == a+1 && b <= '9' || a == '9' && (b == '0' || b == 'a'))
		letter := a >= 'a' && a < 'z' && b == a+1
		if !digit && !letter {
			return false
		}
	}
	return len(s) >= shortest
}

// Known returns s, or "" if s is a placeholder that vendors put into unset fields. Many
// machines share these, so they identify none.
func Known(s string) string {
	s = strings.TrimSpace(s)
	switch strings.ToLower(strings.Trim(s, ".")) {
	case "", "none", "n/a", "na", "null", "unknown", "default string", "to be filled by o.e.m", "not specified",
		"not applicable", "not available", "system serial number", "system product name", "system manufacturer",
		"chassis serial number",
		"base board serial number", "serial number", "oem", "o.e.m", "invalid", "empty", "123456789", "0123456789",
		"undefined", "unspecified", "none provided", "not provided", "not defined", "not set", "unassigned", "unavailable",
		"no asset tag", "asset tag", "no serial", "serial", "default", "product name", "manufacturer", "x.x", "0x0",
		"03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009",
		"12345678-1234-5678-90ab-cddeefaabbcc":
		return ""
	}
	if l := strings.ToLower(s); strings.HasPrefix(l, "oem define") || strings.HasPrefix(l, "oem string") ||
		strings.HasPrefix(l, "to be filled") || counts(l) {
		return ""
	}
	// One repeated character and dashes, such as a UUID of zeros.
	if rest := strings.ReplaceAll(s, "-", ""); rest == "" || len(rest) > 1 && strings.Trim(rest, rest[:1]) == "" {
		return ""
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }) {
		return ""
	}
	return s
}

package known

import "strings"

// lower returns s with its ASCII letters in lower case, which is the same in every release of Go.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r - 'A' + 'a'
		}
		return r
	}, s)
}

// plain returns what distinguishes an identifier. Labels, vendors and tools write it with other
// case, blanks and separators.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > '~' {
			return r
		}
		return -1
	}, lower(Text(s)))
}

// SameSerial reports whether two serial numbers are the same. A placeholder is the same as none.
func SameSerial(a, b string) bool { return plain(a) != "" && plain(a) == plain(b) }

// uuidDigits is the number of hexadecimal digits of a UUID.
const uuidDigits = 32

// SameUUID reports whether two system UUIDs are the same. Firmware before SMBIOS 2.6, and some
// tools, have the first three groups in the other order of bytes.
func SameUUID(a, b string) bool {
	a, b = plain(a), plain(b)
	return a != "" && (a == b || len(a) == uuidDigits && swapped(a) == b)
}

// swapped returns the digits of a UUID with the first three groups in the other order of bytes.
func swapped(s string) string {
	var b strings.Builder
	for _, group := range [][2]int{{0, 8}, {8, 12}, {12, 16}} {
		for i := group[1] - 2; i >= group[0]; i -= 2 {
			b.WriteString(s[i : i+2])
		}
	}
	return b.String() + s[16:]
}

// Key returns a text that two pairs of a serial number and a UUID share if both are the same, or ""
// if one of them is not known.
func Key(serial, uuid string) string {
	serial, uuid = plain(serial), plain(uuid)
	if serial == "" || uuid == "" {
		return ""
	}
	if len(uuid) == uuidDigits {
		uuid = min(uuid, swapped(uuid))
	}
	return serial + "/" + uuid
}

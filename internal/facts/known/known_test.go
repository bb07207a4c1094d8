package known_test

import (
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/facts/known"
)

// TestSame checks spellings of one identifier, and placeholders, which identify nothing.
func TestSame(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b         string
		serial, uuid bool
	}{
		{"S1", " s1 ", true, true},
		{"S-1", "S 1", true, true},
		{"S1", "S2", false, false},
		{"", "", false, false},
		{"Default string", "default string", false, false},
		{"38947555-7742-3448-3784-823347823834", "38947555774234483784823347823834", true, true},
		{"38947555-7742-3448-3784-823347823834", "55759438-4277-4834-3784-823347823834", false, true},
		{"38947555-7742-3448-3784-823347823834", "38947555-7742-3448-3784-823347823835", false, false},
	} {
		if got := known.SameSerial(tt.a, tt.b); got != tt.serial {
			t.Errorf("serial numbers %q and %q: got %v, want %v", tt.a, tt.b, got, tt.serial)
		}
		if got := known.SameUUID(tt.a, tt.b); got != tt.uuid {
			t.Errorf("UUIDs %q and %q: got %v, want %v", tt.a, tt.b, got, tt.uuid)
		}
		if got := known.Key("S9", tt.a) != "" && known.Key("S9", tt.a) == known.Key("s 9", tt.b); got != tt.uuid {
			t.Errorf("keys with %q and %q: got %v, want %v", tt.a, tt.b, got, tt.uuid)
		}
	}
	if got := known.Key("", "38947555-7742-3448-3784-823347823834"); got != "" {
		t.Errorf("key without a serial number: got %q, want none", got)
	}
}

func TestText(t *testing.T) {
	for s, want := range map[string]string{
		"ABC1234": "ABC1234", " x1 ": "x1", "7": "7", "None": "", "NONE": "", "Not Specified": "", "0000000": "",
		"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF": "",
		"01234567890123456789AB":               "", "1234567890": "", "0123456789ABCDEF": "", "OEM Define 3": "",
		"Undefined":   "",
		"Unspecified": "", "None Provided": "", "00020003-0004-0005-0006-000700080009": "", "12345": "12345",
		"abcdeg1": "abcdeg1", "0": "", "Unknow": "", "(none)": "", "[Empty]": "", "TBD": "", "Filled By OEM": "",
		"Type2 - Board Serial Number": "", "A1_SerNum0": "", "MB-1234567890": "", "BSN12345678901234567": "",
		"NO DIMM": "", "MB-1234567891": "MB-1234567891", "SN-0001": "SN-0001", "SKYBSN1234567890": "SKYBSN1234567890",
		"....": "", "-": "", "To be filled by O.E.M.": "",
		"03000200-0400-0500-0006-000700080009": "", "bad\x01": "", "\xff\xfe": "", "": "",
	} {
		if got := known.Text(s); got != want {
			t.Errorf("Text(%q): got %q, want %q", s, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("To be filled by O.E.M.")
	f.Add("\x00\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := known.Text(s)
		if known.Text(got) != got || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' }) {
			t.Errorf("Text(%q): got %q", s, got)
		}
	})
}

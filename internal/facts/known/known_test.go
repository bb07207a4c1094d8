package known_test

import (
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

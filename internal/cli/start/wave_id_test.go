package start

import (
	"regexp"
	"testing"
)

// TestGeneratedWaveIDs checks that a generated id is short, because people type it.
func TestGeneratedWaveIDs(t *testing.T) {
	a, b := NewWaveID(), NewWaveID()
	if a == b || !regexp.MustCompile(`^wave-[0-9a-f]{16}$`).MatchString(a) {
		t.Errorf("got %s and %s, want two of 16 hex digits", a, b)
	}
}

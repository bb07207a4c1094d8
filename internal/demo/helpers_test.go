package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// golden compares a text with a file of testdata, or writes the file if UPDATE_GOLDEN=1.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("read the wanted text (UPDATE_GOLDEN=1 writes it): %v", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// text returns lines as a terminal of that width shows them.
func text(lines []render.Line, width int, g glyphs, colour bool) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.TrimRight(cut(l, width, g).Format(0, colour), " ") + "\n")
	}
	return b.String()
}

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
)

func TestManualPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	var c clitest.Command
	c.WantCode(t, c.Run(t, nil, "man", dir), app.ExitOK)
	page, err := os.ReadFile(filepath.Join(dir, "holdfast-machine-issues.1"))
	if err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, "holdfast-machine-issues.1.golden", string(page))

	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) < 80 {
		t.Fatalf("got %d pages (%v), want one for each of more than eighty commands", len(pages), err)
	}
	for _, file := range pages {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		clitest.WantIn(t, filepath.Base(file), string(text), ".TH ", ".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n")
		if name := filepath.Base(file); name == "holdfast-man.1" || name == "holdfast-help.1" {
			t.Errorf("%s: got a page of a hidden command", name)
		}
		for line := range strings.Lines(string(text)) {
			known := false
			for _, macro := range []string{".TH ", ".SH ", ".TP\n", ".PP\n", ".nf\n", ".fi\n"} {
				known = known || strings.HasPrefix(line, macro)
			}
			if (strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'")) && !known {
				t.Errorf("%s: got text that resembles a macro: %q", filepath.Base(file), line)
			}
		}
	}
}

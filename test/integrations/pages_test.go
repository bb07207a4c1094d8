package integrations

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// lacking is the exit code by which a page says that this machine has not what it takes.
const lacking = 77

// TestPages types what the pages of docs/ say, each page in a shell and a directory of its own,
// with ports of its own.
func TestPages(t *testing.T) {
	ran := 0
	for _, pattern := range []string{"../../docs/*.md", "../../docs/runbooks/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			page, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all, err := commands(string(page))
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if len(all) == 0 {
				continue
			}
			ran++
			t.Run(filepath.Base(file), func(t *testing.T) { typeIn(t, all) })
		}
	}
	if ran == 0 {
		t.Error("no page of docs/ has a mark")
	}
}

// typeIn runs the commands of a page in one shell, and holds what each prints against what the page
// says.
func typeIn(t *testing.T, all []command) {
	l := newLab(t)
	var script strings.Builder
	// nobody writes into the directory when it is removed
	script.WriteString("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n")
	for i, c := range all {
		fmt.Fprintf(&script, "exec >said-%d 2>&1\n", i)
		if c.mayFail() {
			fmt.Fprintf(&script, "if %s; then echo 'it did not fail'; fi\n", strings.TrimSpace(c.code))
		} else {
			script.WriteString(c.code + "\n")
		}
	}
	_, err := l.try(nil, "bash", "-c", script.String())
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == lacking {
		t.Skip("this machine lacks a program that the page takes for granted")
	}
	for i, c := range all {
		said, readErr := os.ReadFile(filepath.Join(l.dir, fmt.Sprintf("said-%d", i)))
		switch {
		case readErr != nil:
			t.Errorf("was not reached:\n%s", c.code)
		case !strings.Contains(string(said), c.says):
			t.Errorf("%s\ndoes not say %q. It says:\n%s", c.code, c.says, said)
		case len(c.want) > 0 && !prints(c.want, string(said)):
			t.Errorf("%s\nis to print\n%s\nIt prints\n%s", c.code, strings.Join(c.want, "\n"), said)
		case err != nil:
			t.Logf("%s\nsays:\n%s", c.code, said)
		}
	}
	if err != nil {
		peer, _ := os.ReadFile(filepath.Join(l.dir, "holdfast.log"))
		t.Errorf("%v\nThe peer says:\n%s", err, peer)
	}
}

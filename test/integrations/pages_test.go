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

// lacking is the exit code of a page that needs a missing program.
const lacking = 77

// TestPages runs the marked commands of docs/, each page in its own shell, directory and ports.
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
		t.Error(" has a mark/ has a mark")
	}
}

// typeIn runs the commands of a page in one shell, and compares the output of each with the page.
func typeIn(t *testing.T, all []command) {
	l := newLab(t)
	var script strings.Builder
	// Wait for all jobs, so that none writes into the directory while it is removed.
	script.WriteString("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n")
	for i, c := range all {
		fmt.Fprintf(&script, "exec >output-%d 2>&1\n", i)
		if c.mayFail() {
			fmt.Fprintf(&script, "if %s; then echo 'it did not fail'; fi\n", strings.TrimSpace(c.code))
		} else {
			script.WriteString(exitCode.ReplaceAllString(c.code, "{ $1; } || [ $$? = $2 ]") + "\n")
		}
	}
	_, err := l.try(nil, "bash", "-c", script.String())
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == lacking {
		t.Skip("NOT TESTED: a program that the page needs is missing")
	}
	for i, c := range all {
		output, readErr := os.ReadFile(filepath.Join(l.dir, fmt.Sprintf("output-%d", i)))
		switch {
		case readErr != nil:
			t.Errorf("not reached:\n%s", c.code)
		case !strings.Contains(string(output), c.says):
			t.Errorf("%s\ngot\n%s\nwant %q in it", c.code, output, c.says)
		case len(c.want) > 0 && !prints(c.want, string(output)):
			t.Errorf("%s\nwant\n%s\ngot\n%s", c.code, strings.Join(c.want, "\n"), output)
		case err != nil:
			t.Logf("%s\nprints:\n%s", c.code, output)
		}
	}
	if err != nil {
		peer, _ := os.ReadFile(filepath.Join(l.dir, "holdfast.log"))
		t.Errorf("%v\nLog of the peer:\n%s", err, peer)
	}
}

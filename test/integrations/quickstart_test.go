package integrations

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is commands of a page that are marked: `<!-- run it -->`, or `<!-- run it: TEXT -->` when they have to print TEXT.
type block struct {
	says, code string
}

// blocks finds what is marked in a page. A mark that is not right before a block is an error.
func blocks(page string) ([]block, error) {
	marked := regexp.MustCompile("(?s)<!-- run it(?:: ([^\n]*?))? -->\n```sh\n(.*?)```\n")
	var all []block
	for _, m := range marked.FindAllStringSubmatch(page, -1) {
		all = append(all, block{m[1], m[2]})
	}
	if n := strings.Count(page, "<!-- run it"); n != len(all) || n == 0 {
		return nil, fmt.Errorf("%d marks, and %d blocks of sh right below one", n, len(all))
	}
	return all, nil
}

// TestQuickStart types what docs/quickstart.md says, in one shell.
func TestQuickStart(t *testing.T) {
	page, err := os.ReadFile("../../docs/quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	all, err := blocks(string(page))
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t)
	var script strings.Builder
	script.WriteString("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n") // nobody writes into the directory when it is removed
	for i, b := range all {
		fmt.Fprintf(&script, "exec >block-%d 2>&1\n%s\n", i, b.code)
	}
	_, err = l.try(nil, "bash", "-c", script.String())
	for i, b := range all {
		said, readErr := os.ReadFile(filepath.Join(l.dir, fmt.Sprintf("block-%d", i)))
		if readErr != nil {
			t.Errorf("block %d was not reached:\n%s", i+1, b.code)
			continue
		}
		if !strings.Contains(string(said), b.says) {
			t.Errorf("block %d does not say %q:\n%s\nIt says:\n%s", i+1, b.says, b.code, said)
		}
		if err != nil {
			t.Logf("block %d says:\n%s", i+1, said)
		}
	}
	if err != nil {
		peer, _ := os.ReadFile(filepath.Join(l.dir, "holdfast.log"))
		t.Errorf("%v\nThe peer says:\n%s", err, peer)
	}
}

func TestBlocks(t *testing.T) {
	for page, want := range map[string]int{
		"<!-- run it -->\n```sh\na\n```\n":                1,
		"<!-- run it: x -->\n```sh\na\n```\n":             1,
		"<!-- run it -->\n\n```sh\na\n```\n":              -1,
		"<!-- run it -->\n```console\na\n```\n":           -1,
		"nothing":                                         -1,
		"```sh\na\n```\n<!-- run it -->\n```sh\nb\n```\n": 1,
	} {
		got, err := blocks(page)
		if (err != nil) != (want < 0) || err == nil && len(got) != want {
			t.Errorf("%q: got %d blocks and %v, want %d", page, len(got), err, want)
		}
	}
}

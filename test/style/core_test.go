package style

import (
	"bytes"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// inCore reports whether a Go file belongs to the core of docs/architecture.md. Test support does
// not.
func inCore(file string) bool {
	dir := path.Dir(file)
	if strings.HasSuffix(path.Base(dir), "test") {
		return false
	}
	part, _, _ := strings.Cut(file, "/")
	return part == "fsm" || part == "cluster" || part == "executor" || dir == "providers"
}

// TestCoreLines compares the size of the core with the one in docs/architecture.md, in thousands of
// lines: a newcomer must know how much there is to read.
func TestCoreLines(t *testing.T) {
	lines := 0
	for _, s := range sources(t) {
		if path.Ext(s.path) != ".go" || s.generated() || s.inTestFile() || !inCore(s.path) {
			continue
		}
		text, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		lines += bytes.Count(text, []byte("\n"))
	}
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`: (\d+),000 lines without tests`).FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/architecture.md does not give the size of the core")
	}
	if stated, _ := strconv.Atoi(string(m[1])); stated*1000-lines > 1000 || lines-stated*1000 > 1000 {
		t.Errorf("docs/architecture.md: the core has %d,000 lines, want %d,000", stated, (lines+500)/1000)
	}
}

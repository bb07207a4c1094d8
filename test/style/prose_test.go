package style

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Limits of a line, in columns. A tab is four in comments and one in code.
const (
	maxComment = 100
	maxCode    = 120
	maxProse   = 160
	maxCell    = 200 // of a table, without the addresses of links
)

// avoided lists words that this tree does not use, with those to use: see docs/glossary.md.
func avoided() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"heartbeat":                     regexp.MustCompile(`(?i)\bsigns? of life\b`),
		"it or they, for a peer":        regexp.MustCompile(`(?i)\b(he|his|him|himself)\b`),
		"a document of this repository": regexp.MustCompile(`DESIGN(\.md)? ?§|specs/` + `README`),
	}
}

// unwrapped begins comments that are not prose: directives, code, and texts that must stand in one
// line, such as what an example prints.
var unwrapped = regexp.MustCompile(`^\s*//(nolint|go:|\t|    |\s*(https?:|sleep:|failpoint:|nolint))`)

// checkComments lists the full-line comments of a Go file that are too wide, and words to avoid.
func checkComments(path, text string) []string {
	var found []string
	output := false // of an example
	for i, line := range strings.Split(text, "\n") {
		_, comment, ok := strings.Cut(line, "//")
		if !ok || !strings.HasPrefix(strings.TrimSpace(line), "//") {
			output = false
			continue
		}
		if output = output || strings.HasPrefix(comment, " Output:"); output {
			continue
		}
		at := fmt.Sprintf("%s:%d", path, i+1)
		if n := len([]rune(strings.ReplaceAll(line, "\t", "    "))); n > maxComment && !unwrapped.MatchString(line) {
			found = append(found, fmt.Sprintf("%s: comment has %d columns, more than %d: wrap it", at, n, maxComment))
		}
		for use, word := range avoided() {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			if m := word.FindString(comment); m != "" {
				found = append(found, fmt.Sprintf("%s: comment says %q: say %s", at, m, use))
			}
		}
	}
	return found
}

// checkCode lists the lines of code in a Go file that are too wide. Raw strings, imports and lines
// with a nolint directive cannot be wrapped.
func checkCode(path, text string) []string {
	var found []string
	raw := false
	for i, line := range strings.Split(text, "\n") {
		inside := raw
		if code := strings.ReplaceAll(strings.ReplaceAll(line, "'`'", ""), "\"`\"", ""); strings.Count(code, "`")%2 == 1 {
			raw = !raw
		}
		n := len([]rune(line))
		if n <= maxCode || inside || strings.Contains(line, "`") || strings.Contains(line, "//nolint:") ||
			strings.HasPrefix(strings.TrimSpace(line), "//") {
			continue
		}
		found = append(found, fmt.Sprintf("%s:%d: code has %d columns, more than %d: wrap it", path, i+1, n, maxCode))
	}
	return found
}

// checkDocument lists the lines of a document's prose that are too wide. Tables, code, images and
// links have lines of their own.
func checkDocument(path, text string) []string {
	var found []string
	fence := false
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			fence = !fence
		case fence || strings.HasPrefix(line, "    ") || strings.HasPrefix(trimmed, "|") ||
			strings.HasPrefix(trimmed, "![") || strings.HasPrefix(trimmed, "http"):
		case len([]rune(line)) > maxProse:
			found = append(found, fmt.Sprintf("%s:%d: line has %d columns, more than %d: wrap it", path, i+1,
				len([]rune(line)), maxProse))
		}
	}
	return found
}

// link matches a link of Markdown, of which readers see the text.
var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// checkCells lists the cells of a document's tables that are too long to be read in a column.
func checkCells(path, text string) []string {
	var found []string
	fence := false
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			fence = !fence
		}
		if fence || !strings.HasPrefix(trimmed, "|") {
			continue
		}
		seen := strings.ReplaceAll(link.ReplaceAllString(trimmed, "$1"), `\|`, "/")
		for cell := range strings.SplitSeq(strings.Trim(seen, "|"), "|") {
			if n := len([]rune(strings.TrimSpace(cell))); n > maxCell {
				found = append(found, fmt.Sprintf("%s:%d: cell has %d characters, more than %d: move the details below the table",
					path, i+1, n, maxCell))
			}
		}
	}
	return found
}

// TestCells holds the tables of all documents to a length that fits. The reference is made of the
// protos.
func TestCells(t *testing.T) {
	walk(t, func(name string, text []byte) error {
		if path.Ext(name) != ".md" || name == "docs/reference.md" {
			return nil
		}
		for _, f := range checkCells(name, string(text)) {
			t.Error(f)
		}
		return nil
	})
}

// TestProse holds comments and documents to the lengths and words that reviews ask for.
func TestProse(t *testing.T) {
	for _, s := range sources(t) {
		if s.generated() || s.path == "test/style/prose_test.go" {
			continue
		}
		text, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range append(checkComments(s.path, string(text)), checkCode(s.path, string(text))...) {
			t.Error(f)
		}
	}
	documents, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(documents, "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md") {
		if path == filepath.Join("docs", "reference.md") { // it is made of the protos
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range checkDocument(path, string(text)) {
			t.Error(f)
		}
	}
}

func TestProseIsChecked(t *testing.T) {
	long := strings.Repeat("x ", 60)
	for _, tt := range []struct {
		name  string
		check func(path, text string) []string
		text  string
		want  []string
	}{
		{"wide", checkComments, "// " + long, []string{"a:1: comment has 123 columns, more than 100: wrap it"}},
		{"code", checkComments, "x := 1 // " + long, nil},
		{"wide code", checkCode, "x := 1 // " + long, []string{"a:1: code has 130 columns, more than 120: wrap it"}},
		{"raw string", checkCode, "x := `\n" + long + "\n`\ny := `" + long + "`", nil},
		{"directive", checkComments, "//nolint:all " + long, nil},
		{"output", checkComments, "// Output:\n// " + long + "\n}\n// No sign of life",
			[]string{`a:4: comment says "sign of life": say heartbeat`}},
		{"word", checkComments, "// No sign of life came.", []string{`a:1: comment says "sign of life": say heartbeat`}},
		{"citation", checkComments, "// See DESIGN" + " §9.", []string{`a:1: comment says "DESIGN` +
			` §": say a document of this repository`}},
		{"prose", checkDocument, "\n" + strings.Repeat("x ", 81),
			[]string{"a:2: line has 162 columns, more than 160: wrap it"}},
		{"table", checkDocument, "| " + strings.Repeat("x ", 81), nil},
		{"long cell", checkCells, "| a | " + strings.Repeat("x", 201) + " |",
			[]string{"a:1: cell has 201 characters, more than 200: move the details below the table"}},
		{"cells", checkCells, "| " + strings.Repeat("x", 200) + " | " + strings.Repeat("ä", 200) + " |", nil},
		{"cell with a bar", checkCells, "| " + strings.Repeat("x", 100) + `\|` + strings.Repeat("x", 100) + " |",
			[]string{"a:1: cell has 201 characters, more than 200: move the details below the table"}},
		{"cell with a link", checkCells, "| [" + strings.Repeat("x", 190) + "](" + strings.Repeat("y", 20) + ") |", nil},
		{"table in code", checkCells, "```\n| " + strings.Repeat("x", 201) + " |\n```", nil},
		{"long line", checkCells, strings.Repeat("x", 201), nil},
		{"code block", checkDocument, "```\n" + strings.Repeat("x ", 81) + "\n```", nil},
	} {
		if diff := cmp.Diff(tt.want, tt.check("a", tt.text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

package integrations

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeShowsTheDemo runs the demo as README does, and looks for the lines of its sample in the
// output, in order.
func TestReadmeShowsTheDemo(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	want := sample(string(page))
	if len(want) < 5 || !strings.Contains(string(page), "\n    make demo ") {
		t.Fatalf("got sample %q, and want \"make demo\" above it", want)
	}
	out := newLab(t).run("holdfast", "demo", "--exit")
	if missing := inOrder(want, out); missing != "" {
		t.Errorf("README shows %q, which the demo does not print there:\n%s", missing, out)
	}
}

// sample returns the indented lines that README shows below its description of the demo.
func sample(page string) []string {
	_, below, _ := strings.Cut(page, "\nThe demo runs ")
	below, _, _ = strings.Cut(below, "\n## ")
	var all []string
	for line := range strings.Lines(below) {
		if text, ok := strings.CutPrefix(line, "    "); ok {
			all = append(all, plain(text))
		}
	}
	return all
}

// inOrder returns the first line that is missing in a text, where the lines may have others between
// them. It returns "" if all are there.
func inOrder(lines []string, text string) string {
	for got := range strings.Lines(text) {
		if len(lines) > 0 && plain(got) == lines[0] {
			lines = lines[1:]
		}
	}
	if len(lines) > 0 {
		return lines[0]
	}
	return ""
}

var (
	aPeer   = regexp.MustCompile(`\bn[1-3]\b`)
	aNumber = regexp.MustCompile(`\d+(\.\d+)?`)
)

// plain returns a line without what differs from run to run: numbers, names of peers, and the width
// of columns.
func plain(line string) string {
	line = aNumber.ReplaceAllString(aPeer.ReplaceAllString(line, "n"), "N")
	return strings.Join(strings.Fields(line), " ")
}

func TestInOrder(t *testing.T) {
	want := sample("# x\n    cmd\n\nThe demo runs a plan:\n\n     1.5 s  n1 leads: 22 ms\n\n" +
		"    a  12\n\nMore.\n## y\n    z\n")
	for text, missing := range map[string]string{
		"  0.1 s  more\n 13.0 s  n3 leads: 1 ms\nmore\na 1\n": "",
		" 13.0 s  n3 leads: 1 ms\n":                           "a N",
		"a 1\n 13.0 s  n3 leads: 1 ms\n":                      "a N", // in another order
		" 13.0 s  n3 leads for 1 ms\na 1\n":                   "N s n leads: N ms",
	} {
		if got := inOrder(want, text); got != missing {
			t.Errorf("%q: got %q missing, want %q", text, got, missing)
		}
	}
}

package cli_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

const shapesGolden = "testdata/shapes.golden"

// readShapes reads the golden file: a line "# COMMAND .LIST[]" for each command that prints the
// fields of the lines below.
func readShapes(t *testing.T) map[string]shape {
	t.Helper()
	text, err := os.ReadFile(shapesGolden)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	all := map[string]shape{}
	var labels []string
	fields := true
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		label, head := strings.CutPrefix(line, "# ")
		switch {
		case head && fields:
			labels, fields = []string{label}, false
		case head:
			labels = append(labels, label)
		case line != "":
			fields = true
			path, kind, _ := strings.Cut(line, " ")
			for _, l := range labels {
				if all[l] == nil {
					all[l] = shape{}
				}
				all[l][path] = kind
			}
		}
	}
	return all
}

// writeShapes writes the golden file. Commands with the same fields share a section.
func writeShapes(t *testing.T, all map[string]shape) {
	t.Helper()
	sections := map[string][]string{}
	for _, label := range slices.Sorted(maps.Keys(all)) {
		var b strings.Builder
		for _, path := range slices.Sorted(maps.Keys(all[label])) {
			fmt.Fprintf(&b, "%s %s\n", path, all[label][path])
		}
		sections[b.String()] = append(sections[b.String()], "# "+label+"\n")
	}
	var out []string
	for fields, labels := range sections {
		out = append(out, strings.Join(labels, "")+fields)
	}
	slices.Sort(out)
	if err := os.WriteFile(shapesGolden, []byte(strings.Join(out, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

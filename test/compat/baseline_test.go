package compat

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// baseline has the lines of each kind, such as flags, that a build has.
type baseline map[string][]string

// removal is a line of a release that was removed on purpose.
type removal struct{ kind, line, version, reason string }

// compare lists the lines of releases that this build lacks, and the removals that are not
// needed. What is new in this build is free.
func compare(releases map[string]baseline, now baseline, removed []removal) []string {
	allowed, known := map[string]bool{}, map[string]bool{}
	for _, r := range removed {
		allowed[r.kind+" "+r.line] = true
	}
	var found []string
	for _, version := range slices.Sorted(maps.Keys(releases)) {
		for _, kind := range slices.Sorted(maps.Keys(releases[version])) {
			for _, line := range releases[version][kind] {
				known[kind+" "+line] = true
				if !allowed[kind+" "+line] && !slices.Contains(now[kind], line) {
					found = append(found, fmt.Sprintf("%s: %q of %s is gone: restore it, or announce that (docs/support.md) and "+
						"add a row to testdata/allowed.txt", kind, line, version))
				}
			}
		}
	}
	for _, r := range removed {
		switch {
		case !known[r.kind+" "+r.line]:
			found = append(found, fmt.Sprintf("testdata/allowed.txt: %s %q: no release had it: delete the row", r.kind, r.line))
		case slices.Contains(now[r.kind], r.line):
			found = append(found, fmt.Sprintf("testdata/allowed.txt: %s %q: it is not gone: delete the row", r.kind, r.line))
		}
	}
	return found
}

// parseRemovals reads rows "KIND | LINE | VERSION | REASON". Empty lines and comments begin with #.
func parseRemovals(text string) ([]removal, error) {
	var all []removal
	for n, row := range strings.Split(text, "\n") {
		if row = strings.TrimSpace(row); row == "" || strings.HasPrefix(row, "#") {
			continue
		}
		cells := strings.Split(row, " | ")
		if len(cells) != 4 || slices.Contains(cells, "") || !version.MatchString(cells[2]) {
			return nil, fmt.Errorf("allowed.txt:%d: %q: want KIND | LINE | VERSION | REASON", n+1, row)
		}
		all = append(all, removal{cells[0], cells[1], cells[2], cells[3]})
	}
	return all, nil
}

var (
	version = regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	heading = regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.0)\]`)
)

// unrecorded lists the minor releases of a changelog that have no baseline.
func unrecorded(changelog string, releases map[string]baseline) []string {
	var missing []string
	for _, m := range heading.FindAllStringSubmatch(changelog, -1) {
		if releases[m[1]] == nil {
			missing = append(missing, m[1])
		}
	}
	return missing
}

// readReleases reads the baselines in a directory.
func readReleases(dir string) (map[string]baseline, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.txt"))
	if err != nil {
		return nil, err
	}
	all := map[string]baseline{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		of := filepath.Base(filepath.Dir(file))
		if all[of] == nil {
			all[of] = baseline{}
		}
		all[of][strings.TrimSuffix(filepath.Base(file), ".txt")] = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	return all, nil
}

// writeRelease writes the baseline of a release, which must not exist.
func writeRelease(dir string, b baseline) error {
	old, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return err
	}
	if len(old) > 0 {
		return fmt.Errorf("%s exists: what a release had never changes", old[0])
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for kind, lines := range b {
		slices.Sort(lines)
		text := strings.Join(slices.Compact(lines), "\n") + "\n"
		if err := os.WriteFile(filepath.Join(dir, kind+".txt"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func TestCompare(t *testing.T) {
	const remedy = ": restore it, or announce that (docs/support.md) and add a row to testdata/allowed.txt"
	old := map[string]baseline{
		"0.1.0": {"flags": {"holdfast a --x", "holdfast a --y"}, "exits": {"3 not found"}},
		"0.2.0": {"flags": {"holdfast a --y", "holdfast b"}},
	}
	all := baseline{"flags": {"holdfast a --x", "holdfast a --y", "holdfast b"}, "exits": {"3 not found"}}
	for _, tt := range []struct {
		name    string
		now     baseline
		removed []removal
		want    []string
	}{
		{"nothing is gone", all, nil, nil},
		{"more than there was", baseline{"flags": append(all["flags"], "holdfast c"), "exits": all["exits"],
			"metrics": {"m"}}, nil, nil},
		{"a line of one release", baseline{"flags": {"holdfast a --y", "holdfast b"}, "exits": all["exits"]}, nil,
			[]string{`flags: "holdfast a --x" of 0.1.0 is gone` + remedy}},
		{"a line of two releases", baseline{"flags": {"holdfast a --x", "holdfast b"}, "exits": all["exits"]}, nil,
			[]string{`flags: "holdfast a --y" of 0.1.0 is gone` + remedy, `flags: "holdfast a --y" of 0.2.0 is gone` + remedy}},
		{"part of a line", baseline{"flags": {"holdfast a --xy", "holdfast a --y", "holdfast b"}, "exits": all["exits"]},
			nil, []string{`flags: "holdfast a --x" of 0.1.0 is gone` + remedy}},
		{"the line in another kind", baseline{"flags": append(all["flags"], "3 not found")}, nil,
			[]string{`exits: "3 not found" of 0.1.0 is gone` + remedy}},
		{"another meaning", baseline{"flags": all["flags"], "exits": {"3 conflict"}}, nil,
			[]string{`exits: "3 not found" of 0.1.0 is gone` + remedy}},
		{"a kind", baseline{"flags": all["flags"]}, nil, []string{`exits: "3 not found" of 0.1.0 is gone` + remedy}},
		{"on purpose", baseline{"flags": all["flags"]}, []removal{{"exits", "3 not found", "0.3.0", "a reason"}}, nil},
		{"on purpose, of another kind", baseline{"flags": all["flags"]},
			[]removal{{"flags", "3 not found", "0.3.0", "a reason"}},
			[]string{`exits: "3 not found" of 0.1.0 is gone` + remedy,
				`testdata/allowed.txt: flags "3 not found": no release had it: delete the row`}},
		{"on purpose, but still there", all, []removal{{"flags", "holdfast b", "0.3.0", "a reason"}},
			[]string{`testdata/allowed.txt: flags "holdfast b": it is not gone: delete the row`}},
	} {
		if diff := cmp.Diff(tt.want, compare(old, tt.now, tt.removed)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestParseRemovals(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []removal
		err  string
	}{
		{"# KIND | LINE\n\nflags | holdfast a --x | 0.3.0 | it had no effect\n",
			[]removal{{"flags", "holdfast a --x", "0.3.0", "it had no effect"}}, ""},
		{"flags | holdfast a --x | 0.3.0", nil, `allowed.txt:1: "flags | holdfast a --x | 0.3.0": want KIND | LINE | VERSION | REASON`},
		{"flags | a | soon | b", nil, `allowed.txt:1: "flags | a | soon | b": want KIND | LINE | VERSION | REASON`},
	} {
		got, err := parseRemovals(tt.text)
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(removal{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.text, diff)
		}
		if tt.err != "" && (err == nil || err.Error() != tt.err) || tt.err == "" && err != nil {
			t.Errorf("%q: got error %v, want %q", tt.text, err, tt.err)
		}
	}
}

func TestUnrecorded(t *testing.T) {
	const changelog = "## [Unreleased]\n\n## [0.2.1] - 2027-02-01\n\n## [0.2.0] - 2027-01-01\n\n## [0.1.0] - 2026-12-01\n"
	got := unrecorded(changelog, map[string]baseline{"0.1.0": {}})
	if diff := cmp.Diff([]string{"0.2.0"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWriteRelease(t *testing.T) {
	dir := t.TempDir()
	b := baseline{"flags": {"b", "a", "b"}, "exits": {"3 not found"}}
	if err := writeRelease(filepath.Join(dir, "0.1.0"), b); err != nil {
		t.Fatal(err)
	}
	got, err := readReleases(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]baseline{"0.1.0": {"flags": {"a", "b"}, "exits": {"3 not found"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read what was written (-want +got):\n%s", diff)
	}
	if err := writeRelease(filepath.Join(dir, "0.1.0"), b); err == nil {
		t.Error("wrote a release again: want a refusal")
	}
}

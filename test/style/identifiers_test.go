package style

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// word is a word that the names of this repository do not contain. docs/glossary.md has the word
// for each concept; other words do not say what the named thing is.
type word struct {
	parts string // of a name, one behind the other, as in "taken over" for TakenOver and taken_over
	use   string // the term of docs/glossary.md that names the concept; empty: it has none
	where string // the folders in which it is forbidden, with spaces between them; empty: everywhere
}

// forbidden lists the words. Some that the glossary avoids are not in it, because they are right in
// another sense: member (voters and learners together, as autopilot, gossip and the command line
// use it), workflow (of the node API), guard and gate (wrong for a fence only), rest (REST), ping
// (of the discovery API), place (of a turnstile), again, whose and few (in prose and outside of the
// folders below).
func forbidden() []word {
	return []word{
		{"look", "poll", ""}, {"looks", "poll", ""}, {"looked", "poll", ""}, {"lookout", "poll", ""}, {"witness", "poll", ""},
		{"proof", "evidence", ""}, {"proofs", "evidence", ""}, {"prove", "evidence", ""},
		{"news", "event", ""},
		{"beat", "heartbeat", ""}, {"beats", "heartbeat", ""},
		{"beside", "concurrent", ""}, {"non exclusive", "concurrent", ""},
		{"stuck", "circuit breaker", "providers executor/monitor internal/describe internal/hardware test/failpoint"},
		{"left alone", "circuit breaker", ""},
		{"take over", "adopt", ""}, {"taken over", "adopt", ""},
		{"takeover", "adopt", "executor test/crash test/failpoint test/robustness"},
		{"relay", "forward", "client cluster cmd executor fsm internal proto server/auth server/console server/internal"},
		{"deed", "effect", ""},
		{"reign", "term", ""},
		{"place", "endpoint", "fsm"},
		{"elsewhere", "", ""}, {"lately", "", ""}, {"circles", "", ""},
		{"verdict", "", "server/auth internal/cli bench test"}, // that of a probe is an enum of the API
		{"twin", "", "server providers"}, {"otherwise", "", "server/auth server/ui"},
		{"whose", "", "test/robustness providers/kube"}, {"few", "", "test/robustness executor"},
		{"signs", "", "test/robustness"},
	}
}

// in reports whether the word is forbidden in a file.
func (w word) in(file string) bool {
	return w.where == "" || slices.ContainsFunc(strings.Fields(w.where), func(folder string) bool {
		return strings.HasPrefix(file, folder+"/")
	})
}

// checkIdentifiers lists the names that contain a forbidden word.
func checkIdentifiers(ids []identifier) []string {
	var found []string
	for _, id := range ids {
		name := " " + strings.Join(parts(id.name), " ") + " "
		name = strings.ReplaceAll(name, " look up ", " lookup ") // the verb of lookup
		for _, w := range forbidden() {
			if !w.in(id.file) || !strings.Contains(name, " "+w.parts+" ") {
				continue
			}
			finding := fmt.Sprintf("%s:%d: %s contains %q", id.file, id.line, id.name, w.parts)
			if w.use != "" {
				finding += ": the term is " + w.use + " (docs/glossary.md)"
			} else {
				finding += ": name the thing itself"
			}
			found = append(found, finding)
		}
	}
	return found
}

// TestIdentifiers holds names to the words of the glossary: those that Go code, protos and scripts
// declare, flags, metrics, alerts, keys of logs and of JSON, and names of files.
func TestIdentifiers(t *testing.T) {
	var ids []identifier
	for _, s := range sources(t) {
		if !s.generated() && !strings.HasPrefix(s.path, "identifiers_") {
			ids = append(ids, s.identifiers()...)
		}
	}
	walk(t, func(name string, text []byte) error {
		ids = append(ids, textIdentifiers(name, string(text))...)
		return nil
	})
	for _, f := range checkIdentifiers(ids) {
		t.Error(f)
	}
}

// TestGlossaryForbids compares the list of forbidden words with the glossary's.
func TestGlossaryForbids(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("docs", "glossary.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range checkGlossary(forbidden(), string(text)) {
		t.Error(f)
	}
}

// checkGlossary lists the words with a term whose row in the glossary does not name them in its
// last column.
func checkGlossary(words []word, glossary string) []string {
	nots := map[string]string{}
	for line := range strings.Lines(glossary) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			for term := range strings.SplitSeq(cells[1], ",") {
				nots[strings.TrimSpace(term)] += cells[3]
			}
		}
	}
	var found []string
	for _, w := range words {
		if w.use == "" {
			continue
		}
		has := regexp.MustCompile(`\b` + strings.ReplaceAll(w.parts, " ", "[ -]") + `\b`)
		if !has.MatchString(nots[w.use]) {
			found = append(found, fmt.Sprintf("docs/glossary.md: the row of %s does not avoid %q", w.use, w.parts))
		}
	}
	return found
}

func TestCheckIdentifiers(t *testing.T) {
	const poll = ": the term is poll (docs/glossary.md)"
	tests := []struct {
		name, file, text string
		want             []string
	}{
		{"function", "a/a.go", "package a\nfunc lookTwice() {}\n", []string{`a/a.go:2: lookTwice contains "look"` + poll}},
		{"method", "a/a.go", "package a\nfunc (t) Look() {}\n", []string{`a/a.go:2: Look contains "look"` + poll}},
		{"type", "a/a.go", "package a\ntype BMCLook int\n", []string{`a/a.go:2: BMCLook contains "look"` + poll}},
		{"constant", "a/a.go", "package a\nconst lookEvery = 1\n", []string{`a/a.go:2: lookEvery contains "look"` + poll}},
		{"field", "a/a.go", "package a\ntype t struct{ c, look int }\n", []string{`a/a.go:2: look contains "look"` + poll}},
		{"parameter", "a/a.go", "package a\nfunc f(look int) {}\n", []string{`a/a.go:2: look contains "look"` + poll}},
		{"variable", "a/a.go", "package a\nfunc f() {\n\tlook, looks := 1, 2\n}\n",
			[]string{`a/a.go:3: look contains "look"` + poll, `a/a.go:3: looks contains "looks"` + poll}},
		{"range", "a/a.go", "package a\nfunc f() {\n\tfor look := range 3 {\n\t}\n}\n",
			[]string{`a/a.go:3: look contains "look"` + poll}},
		{"tag", "a/a.go", "package a\ntype t struct {\n\tA int `json:\"look\"`\n}\n",
			[]string{`a/a.go:3: look contains "look"` + poll}},
		{"flag", "a/a.go", "package a\nfunc f() { f.IntVar(&n, \"look\", 1, \"\") }\n",
			[]string{`a/a.go:2: look contains "look"` + poll}},
		{"metric", "a/a.go", "package a\nvar d = desc(\"holdfast_looks_total\")\n",
			[]string{`a/a.go:2: holdfast_looks_total contains "looks"` + poll}},
		{"label of a metric", "a/a.go", "package a\nvar d = p.NewDesc(\"a\", \"b\", []string{\"look\"}, nil)\n",
			[]string{`a/a.go:2: look contains "look"` + poll}},
		{"key of a log", "a/a.go",
			"package a\nfunc f() { l.With(\"look\", 1).Info(\"look\", \"look\", \"look\") }\n",
			[]string{`a/a.go:2: look contains "look"` + poll, `a/a.go:2: look contains "look"` + poll}},
		{"value with two parts", "a/a.go", "package a\nconst s = \"left-alone\"\n",
			[]string{`a/a.go:2: left-alone contains "left alone": the term is circuit breaker (docs/glossary.md)`}},
		{"file", "a/look_test.go", "package a\n", []string{`a/look_test.go:1: look_test.go contains "look"` + poll}},
		{"word without a term", "a/a.go", "package a\nvar elsewhere int\n",
			[]string{`a/a.go:2: elsewhere contains "elsewhere": name the thing itself`}},
		{"only in some folders", "server/a.go", "package a\nvar few int\n", nil},
		{"in these folders", "executor/a.go", "package a\nvar few int\n",
			[]string{`executor/a.go:2: few contains "few": name the thing itself`}},
		{"other words", "a/a.go", "package a\n\n// f proves that it looks.\n" +
			"func f() { lookupHost, heartbeat := exec.LookPath(x), \"look\" }\nfunc LookUpBoot() {}\n", nil},
		{"proto", "a/a.proto",
			"// look = 1\nmessage Beat {\n  int32 look_calls = 1; // looks = 2\n  rpc Look(A) returns (B);\n}\n",
			[]string{`a/a.proto:2: Beat contains "beat": the term is heartbeat (docs/glossary.md)`,
				`a/a.proto:3: look_calls contains "look"` + poll, `a/a.proto:4: Look contains "look"` + poll}},
		{"alert", "deploy/monitoring/a.yml", "- alert: LooksLate\n  expr: rate(holdfast_look_calls_total[5m])\n",
			[]string{`deploy/monitoring/a.yml:1: LooksLate contains "looks"` + poll,
				`deploy/monitoring/a.yml:2: holdfast_look_calls_total contains "look"` + poll}},
		{"dashboard", "deploy/monitoring/a.json", "\"title\": \"Looks late\",\n",
			[]string{`deploy/monitoring/a.json:1: Looks-late contains "looks"` + poll}},
		{"script", "a/a.sh", "hf_look() {\n  look\n}\n", []string{`a/a.sh:1: hf_look contains "look"` + poll}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ids := textIdentifiers(tt.file, tt.text)
			if filepath.Ext(tt.file) == ".go" {
				ids = madeUp(t, tt.file, tt.text)[0].identifiers()
			}
			if diff := cmp.Diff(tt.want, checkIdentifiers(ids)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckGlossary(t *testing.T) {
	const glossary = "| term | meaning | not |\n|---|---|---|\n| poll | to read | look, taken over |\n"
	words := []word{{"look", "poll", ""}, {"taken over", "poll", ""}, {"lookout", "poll", ""}, {"news", "event", ""},
		{"few", "", ""}}
	want := []string{`docs/glossary.md: the row of poll does not avoid "lookout"`,
		`docs/glossary.md: the row of event does not avoid "news"`}
	if diff := cmp.Diff(want, checkGlossary(words, glossary)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

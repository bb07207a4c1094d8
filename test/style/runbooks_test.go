package style

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// borrowed lists the messages of libraries and of the kernel that the runbooks quote. test/crash
// provokes each of them.
func borrowed() []string {
	return []string{"no space left on device", "failed to commit logs", "failed to load any existing snapshots", "x509",
		"certificate has expired or is not yet valid",
		"address already in use", "UNAVAILABLE"}
}

var (
	codeSpan = regexp.MustCompile("`([^`]+)`")
	verb     = regexp.MustCompile(`%[-+#0-9.*]*[a-zA-Z]`)
	gap      = regexp.MustCompile(`…|: |; |\[…\]|\(…\)|"[^"]*"|\[|\]|\.{3}`)
)

// messages returns the code in the first column of those tables of a document whose heading is
// "message" or "seen".
func messages(text string) []string {
	var found []string
	in := false
	for line := range strings.Lines(text) {
		first, ok := strings.CutPrefix(strings.TrimSpace(line), "| ")
		if !ok {
			in = in && strings.HasPrefix(line, "|-")
			continue
		}
		first, _, _ = strings.Cut(first, " |")
		if first == "message" || first == "seen" {
			in = true
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(first, -1) {
			if in && strings.Contains(m[1], " ") { // one word is a reason or the name of an alert
				found = append(found, m[1])
			}
		}
	}
	return found
}

// checkMessages lists the pieces of messages that no string of the program contains.
func checkMessages(name, text string, said []string) []string {
	var missing []string
	for _, m := range messages(text) {
		for _, piece := range gap.Split(m, -1) {
			piece = strings.Trim(piece, " .,:;")
			if len(piece) < 4 || slices.ContainsFunc(borrowed(), func(b string) bool { return strings.Contains(piece, b) }) {
				continue
			}
			if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, piece) }) {
				missing = append(missing, fmt.Sprintf("%s: %q: the program does not say %q", name, m, piece))
			}
		}
	}
	return missing
}

// sayings returns all strings of the program, without their placeholders.
func sayings(files []source) []string {
	var all []string
	for _, s := range files {
		if s.isTest() || s.generated() {
			continue
		}
		for n := range ast.Preorder(s.file) {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				continue
			}
			if text, err := strconv.Unquote(lit.Value); err == nil {
				all = append(all, verb.Split(text, -1)...)
			}
		}
	}
	return all
}

// TestRunbooksQuoteTheProgram checks that the program has the messages that the runbooks quote.
func TestRunbooksQuoteTheProgram(t *testing.T) {
	said := sayings(sources(t))
	checked := 0
	walk(t, func(name string, text []byte) error {
		if path.Dir(name) == "docs/runbooks" || name == "docs/operating.md" {
			checked += len(messages(string(text)))
			for _, problem := range checkMessages(name, string(text), said) {
				t.Error(problem)
			}
		}
		return nil
	})
	if checked < 30 {
		t.Errorf("got %d messages in the runbooks, want at least 30: check the headings \"message\" and \"seen\"", checked)
	}
}

func TestCheckMessages(t *testing.T) {
	files := madeUp(t, "p.go",
		"package p\n\nimport \"fmt\"\n\nvar err = fmt.Errorf(\"open the door %s: it is shut\", \"x\")\n")
	table := func(m string) string {
		return "text `no message at all`\n\n| message | meaning |\n|---|---|\n| `" + m + "` | `nor this one` |\n"
	}
	for m, want := range map[string]int{
		"open the door …: it is shut": 0, "open the door a: it is shut: no space left on device": 1,
		"open the window …: it is shut": 1,
		"open the door …: it is open":   1, "open the door …: no space left on device": 0,
	} {
		if got := checkMessages("x.md", table(m), sayings(files)); len(got) != want {
			t.Errorf("%q: got %q, want %d", m, got, want)
		}
	}
}

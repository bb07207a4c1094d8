package style

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// kindsOfWaits returns the names of the kinds of waits, in their order.
func kindsOfWaits() []string {
	var names []string
	for _, n := range slices.Sorted(maps.Keys(holdfastv1.Wait_Kind_name)) {
		if n != 0 {
			names = append(names, holdfastv1.Wait_Kind_name[n])
		}
	}
	return names
}

// TestWaitsAreDocumented checks that docs/states.md lists exactly the kinds of waits.
func TestWaitsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Waits\n")
	if !found {
		t.Fatal("docs/states.md has no section on waits")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|").FindAllStringSubmatch(section, -1) {
		got = append(got, m[1])
	}
	if diff := cmp.Diff(kindsOfWaits(), got); diff != "" {
		t.Errorf("kinds of waits in docs/states.md (-want +got):\n%s", diff)
	}
}

// wordsWait matches a text that says what something waits for, instead of a sentence of a wait.
var wordsWait = regexp.MustCompile(`\b[Ww]ait(s|ing) for (the|an?|its|step|retry|approval)\b`)

// otherWaits are parts of texts about what is neither a run nor a machine.
var otherWaits = []string{
	"waits for the leader of one",   // a peer without a cluster
	"waits for a boot",              // an install session
	"waits for a leader",            // a client
	"Timed out waiting for a reply", // Ironic
	"run start --type REBOOT' also", // a help
	"waiting for approval",          // a name of a list in the dashboard
	"and waits for its end",         // internal/bench
	"waiting for another process",   // the CLI, that reads a FIFO
}

// checkWaitWords returns the texts outside of internal/describe that word a wait, and the sentences
// of waits that it has not made.
func checkWaitWords(files []source) []string {
	var bad []string
	for _, s := range files {
		if s.isTest() || s.generated() || strings.HasPrefix(s.path, "internal/describe/") ||
			strings.HasPrefix(s.path, "internal/cli/clitest/") || strings.HasPrefix(s.path, "fsm/fsmtest/") {
			continue
		}
		for n := range ast.Preorder(s.file) {
			switch n := n.(type) {
			case *ast.BasicLit:
				text, err := strconv.Unquote(n.Value)
				about := func(other string) bool { return strings.Contains(text, other) }
				if n.Kind == token.STRING && err == nil && wordsWait.MatchString(text) &&
					!slices.ContainsFunc(otherWaits, about) {
					bad = append(bad, fmt.Sprintf("%s: %q words a wait: call describe.Wait", s.at(n.Pos()), text))
				}
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					sel, ok := to.(*ast.SelectorExpr)
					if ok && sel.Sel.Name == "Sentence" && (len(n.Rhs) != len(n.Lhs) || !isSentence(n.Rhs[i])) {
						bad = append(bad, s.at(n.Pos())+": a sentence that describe.Wait has not made")
					}
				}
			case *ast.KeyValueExpr:
				key, ok := n.Key.(*ast.Ident)
				if ok && key.Name == "Sentence" && s.path != "fsm/internal/shallow/run.go" && !isSentence(n.Value) {
					bad = append(bad, s.at(n.Pos())+": a sentence that describe.Wait has not made")
				}
			}
		}
	}
	return bad
}

// isSentence reports whether an expression is a call of describe.Wait, or of the function word,
// which stands for it in the state, or no sentence.
func isSentence(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.BasicLit:
		return x.Value == `""`
	case *ast.CallExpr:
		switch f := x.Fun.(type) {
		case *ast.Ident:
			return f.Name == "word"
		case *ast.SelectorExpr:
			of, ok := f.X.(*ast.Ident)
			return ok && of.Name == "describe" && f.Sel.Name == "Wait"
		}
	}
	return false
}

// madeWaits returns the kinds of waits that the state, the executor or the server makes.
func madeWaits(files []source) map[string]bool {
	made := map[string]bool{}
	for _, s := range files {
		part, _, _ := strings.Cut(s.path, "/")
		if s.isTest() || strings.HasPrefix(s.path, "fsm/fsmtest/") ||
			!slices.Contains([]string{"fsm", "executor", "server"}, part) {
			continue
		}
		for n := range ast.Preorder(s.file) {
			var all []ast.Expr
			switch n := n.(type) {
			case *ast.KeyValueExpr: // Kind: holdfastv1.Wait_QUEUE
				all = []ast.Expr{n.Value}
			case *ast.CallExpr: // waitOf(holdfastv1.Wait_COMMAND, "")
				all = n.Args
			}
			for _, x := range all {
				if sel, ok := x.(*ast.SelectorExpr); ok {
					made[strings.TrimPrefix(sel.Sel.Name, "Wait_")] = true
				}
			}
		}
	}
	return made
}

// TestOnePlaceWordsWaits checks that internal/describe alone makes the sentences of waits, and that
// the product makes waits of each kind.
func TestOnePlaceWordsWaits(t *testing.T) {
	t.Parallel()
	files := sources(t)
	for _, bad := range checkWaitWords(files) {
		t.Error(bad)
	}
	made := madeWaits(files)
	for _, kind := range kindsOfWaits() {
		if !made[kind] {
			t.Errorf("no part of the product makes a wait of kind %s", kind)
		}
	}
}

func TestCheckWaitWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`var x = "waiting for the host"`: 1, `var x = "waits for an operator"`: 1, `var x = "waiting for " + y`: 0,
		`var x = "it waits for a leader"`: 0, `func f() { w.Sentence = "the host" }`: 1,
		`func f() { w.Sentence = describe.Wait(w) }`: 0, `func f() { w.Sentence = word(w) }`: 0,
		`func f() { w.Sentence = "" }`: 0, `func f() { w.Sentence = text(w) }`: 1,
		`var w = holdfastv1.Wait{Sentence: "the host"}`: 1, `var w = holdfastv1.Wait{Subject: "host"}`: 0,
	} {
		files := madeUp(t, "server/a.go", "package server\n\n"+text+"\n")
		if got := len(checkWaitWords(files)); got != want {
			t.Errorf("%s: got %d findings, want %d", text, got, want)
		}
	}
}

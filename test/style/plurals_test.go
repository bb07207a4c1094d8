package style

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

var (
	// plural is a number before a plural, with the word before it.
	plural = regexp.MustCompile(`(\w* )?%d (?:[a-z]+ )?(?:machines|runs|peers|voters|members|files|images|secrets|tokens|` +
		`attempts|events|waves|steps|providers|keys|failures|records|commands)\b`)
	// amount are the words before a number that may be 1: "3 of 1 machines" is no mistake.
	amount = regexp.MustCompile(`(?:of|most|than|to|first|least) $`)
	// limit are the words in a text whose numbers are never 1.
	limit = regexp.MustCompile(`at most|maximum|are allowed`)
)

// checkPlurals returns the texts with a number before a plural, such as "has 1 machines".
func checkPlurals(files []source) []string {
	var bad []string
	for _, s := range files {
		if s.isTest() || s.generated() || strings.HasPrefix(s.path, "bench/") ||
			strings.HasPrefix(s.path, "fsm/fsmtest/") || strings.HasPrefix(s.path, "tools/") {
			continue
		}
		for n := range ast.Preorder(s.file) {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || limit.MatchString(lit.Value) {
				continue
			}
			for _, m := range plural.FindAllStringSubmatch(lit.Value, -1) {
				if !amount.MatchString(m[1]) {
					bad = append(bad, s.at(lit.Pos())+": "+m[0]+": 1 needs the singular: see describe.Number, lex.Number")
				}
			}
		}
	}
	return bad
}

func TestPlurals(t *testing.T) {
	for _, bad := range checkPlurals(sources(t)) {
		t.Error(bad)
	}
}

func TestCheckPlurals(t *testing.T) {
	for text, want := range map[string]int{
		"pool %q has %d machines": 1, "%d active runs": 1, "%d of %d machines": 0, "at most %d runs": 0, "%d": 0,
	} {
		files := madeUp(t, "cluster/a.go", "package cluster\n\nconst text = \""+strings.ReplaceAll(text, `"`, `\"`)+"\"\n")
		if got := len(checkPlurals(files)); got != want {
			t.Errorf("%q: got %d findings, want %d", text, got, want)
		}
	}
}

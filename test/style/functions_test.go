package style

import (
	"fmt"
	"go/ast"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// maxCommand is the maximum number of lines of a function in cmd/: the parts of a peer are complete
// values that functions with one task return.
const maxCommand = 80

// checkFunctions lists the functions of commands that are too long.
func checkFunctions(files []source) []string {
	var found []string
	for _, s := range files {
		if !strings.HasPrefix(s.path, "cmd/") || s.isTest() {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := s.line(f.End()) - s.line(f.Pos()) + 1; lines > maxCommand {
				found = append(found, fmt.Sprintf("%s: %s has %d lines, more than %d: cut it into functions with one task",
					s.at(f.Pos()), f.Name.Name, lines, maxCommand))
			}
		}
	}
	return found
}

func TestFunctionsOfCommands(t *testing.T) {
	for _, f := range checkFunctions(sources(t)) {
		t.Error(f)
	}
}

func TestCheckFunctions(t *testing.T) {
	long := "package a\n\nfunc f() {" + strings.Repeat("\n", maxCommand) + "}\n"
	files := madeUp(t, "cmd/a/a.go", long, "cmd/a/b.go", strings.Replace(long, "\n\n\n", "\n\n", 1), "server/a.go", long,
		"cmd/a/a_test.go", long)
	want := []string{"cmd/a/a.go:3: f has 81 lines, more than 80: cut it into functions with one task"}
	if diff := cmp.Diff(want, checkFunctions(files)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

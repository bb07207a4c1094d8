package style

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
)

// maxKinds is the maximum number of kinds of steps that a function distinguishes.
const maxKinds = 2

// checkKinds lists the functions that distinguish more than maxKinds kinds of steps, by type or by
// name. The properties of a kind are declared in the option step_kind of its message.
func checkKinds(files []source, names []string) []string {
	var found []string
	for _, s := range files {
		if s.generated() || s.isTest() {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := kindsIn(f, names); n > maxKinds {
				found = append(found, fmt.Sprintf("%s: %s distinguishes %d kinds of steps, more than %d: "+
					"declare the property in kind.proto", s.at(f.Pos()), f.Name.Name, n, maxKinds))
			}
		}
	}
	return found
}

// kindsIn returns the number of kinds of steps in the cases of a function.
func kindsIn(f *ast.FuncDecl, names []string) int {
	seen := map[string]bool{}
	for n := range ast.Preorder(f) {
		c, ok := n.(*ast.CaseClause)
		if !ok {
			continue
		}
		for _, e := range c.List {
			switch e := e.(type) {
			case *ast.StarExpr:
				if sel, ok := e.X.(*ast.SelectorExpr); ok && strings.HasPrefix(sel.Sel.Name, "Step_") {
					seen[sel.Sel.Name] = true
				}
			case *ast.BasicLit:
				if name, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING && slices.Contains(names, name) {
					seen[name] = true
				}
			}
		}
	}
	return len(seen)
}

func TestKindsAreDeclared(t *testing.T) {
	for _, f := range checkKinds(sources(t), stepkind.Names()) {
		t.Error(f)
	}
}

func TestCheckKinds(t *testing.T) {
	files := madeUp(t,
		"a/types.go", "package a\n"+
			"func two(k any) {\nswitch k.(type) {\ncase *v1.Step_A, *v1.Step_B:\ncase *v1.Other:\n}\n}\n"+
			"func three(k any) {\nswitch k.(type) {\ncase *v1.Step_A, *v1.Step_B:\ncase *v1.Step_C:\n}\n}\n",
		"a/names.go", "package a\nfunc three(k string) {\nswitch k {\ncase \"x\", \"y\":\ncase \"z\", \"other\":\n}\n}\n",
		"a/a_test.go", "package a\nfunc test(k string) {\nswitch k {\ncase \"x\", \"y\", \"z\":\n}\n}\n",
	)
	want := []string{
		"a/types.go:8: three distinguishes 3 kinds of steps, more than 2: declare the property in kind.proto",
		"a/names.go:2: three distinguishes 3 kinds of steps, more than 2: declare the property in kind.proto",
	}
	got := checkKinds(files, []string{"x", "y", "z"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

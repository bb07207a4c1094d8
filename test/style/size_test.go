package style

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Limits of a package: one responsibility fits into so many files, and a type into so many methods.
const (
	maxFiles   = 25
	maxMethods = 60
	maxWiring  = 2000 // lines of the commands of a module, which only put packages together
	maxDemo    = 1000 // lines of internal/demo, which only shows the product
)

// checkSizes lists the packages with too many files and the types with too many methods. Tests and
// generated files do not count.
func checkSizes(files []source) []string {
	inPackage, ofType := map[string]int{}, map[string]int{}
	for _, s := range files {
		pkg := path.Dir(s.path)
		if s.generated() || path.Ext(s.path) != ".go" || s.inTestFile() {
			continue
		}
		inPackage[pkg]++
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				ofType[pkg+"."+receiver(f)]++
			}
		}
	}
	var found []string
	check := func(sizes map[string]int, limit int, unit, advice string) {
		for _, name := range slices.Sorted(maps.Keys(sizes)) {
			if n := sizes[name]; n > limit {
				found = append(found, fmt.Sprintf("%s: has %d %s, more than %d: %s", name, n, unit, limit, advice))
			}
		}
	}
	check(inPackage, maxFiles, "files", "split the package")
	check(ofType, maxMethods, "methods", "split the type")
	return found
}

// receiver returns the name of the type that a method belongs to.
func receiver(f *ast.FuncDecl) string {
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return "?"
		}
	}
}

func TestSizes(t *testing.T) {
	for _, f := range checkSizes(sources(t)) {
		t.Error(f)
	}
	for _, dir := range []string{"cmd", "agent/holdfast-agent", "bench/holdfast-bench"} {
		for _, f := range checkLines(sources(t), dir, maxWiring, "move code into a package that owns it") {
			t.Error(f)
		}
	}
	for _, f := range checkLines(sources(t), "internal/demo", maxDemo, "show less") {
		t.Error(f)
	}
}

// checkLines reports whether the product code below a directory exceeds a limit, in lines.
func checkLines(files []source, dir string, limit int, advice string) []string {
	lines := 0
	for _, s := range files {
		if strings.HasPrefix(s.path, dir+"/") && path.Ext(s.path) == ".go" && !s.inTestFile() {
			lines += s.lines
		}
	}
	if lines <= limit {
		return nil
	}
	return []string{fmt.Sprintf("%s: has %d lines, more than %d: %s", dir, lines, limit, advice)}
}

func TestCheckLines(t *testing.T) {
	files := madeUp(t, "cmd/a/a.go", "package a\n\nvar A = 1\n", "cmd/a/a_test.go", "package a\n\n\n\n",
		"b/b.go", "package b\n\n\n")
	want := []string{"cmd: has 3 lines, more than 2: write less"}
	if diff := cmp.Diff(want, checkLines(files, "cmd", 2, "write less")); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if got := checkLines(files, "cmd", 3, ""); got != nil {
		t.Errorf("three lines of three: got %q, want none", got)
	}
}

func TestCheckSizes(t *testing.T) {
	var args []string
	for i := range maxFiles + 1 {
		args = append(args, fmt.Sprintf("a/f%d.go", i), "package a\n")
	}
	methods := "package b\ntype T[K any] struct{}\n"
	for i := range maxMethods + 1 {
		methods += fmt.Sprintf("func (t *T[K]) m%d() {}\n", i)
	}
	args = append(args, "b/b.go", methods, "b/b_test.go", "package b\nfunc (t *T[K]) more() {}\n")
	want := []string{
		"a: has 26 files, more than 25: split the package",
		"b.T: has 61 methods, more than 60: split the type",
	}
	if diff := cmp.Diff(want, checkSizes(madeUp(t, args...))); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

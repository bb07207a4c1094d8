package style

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
)

// source is one Go file of the repository.
type source struct {
	path  string // from the root, with slashes
	lines int
	fset  *token.FileSet
	file  *ast.File
}

// newSource parses a Go file.
func newSource(name string, text []byte) (source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, fmt.Errorf("parse %s: %w", name, err)
	}
	return source{path: name, lines: bytes.Count(text, []byte("\n")), fset: fset, file: file}, nil
}

// generated reports whether a tool wrote the file.
func (s source) generated() bool { return ast.IsGenerated(s.file) }

// isTest reports whether the file belongs to a test, as all files below test/ do.
func (s source) isTest() bool {
	return strings.HasSuffix(s.path, "_test.go") || strings.HasPrefix(s.path, "test/")
}

// inTestFile reports whether the go command compiles the file into tests only.
func (s source) inTestFile() bool { return strings.HasSuffix(s.path, "_test.go") }

// line returns the line of a position.
func (s source) line(p token.Pos) int { return s.fset.Position(p).Line }

// at returns the position of a finding.
func (s source) at(p token.Pos) string { return s.path + ":" + strconv.Itoa(s.line(p)) }

// uses returns the references to functions of pkg, called or not, under any import name.
func (s source) uses(pkg string, names ...string) []*ast.SelectorExpr {
	local := ""
	for _, i := range s.file.Imports {
		if i.Path.Value != strconv.Quote(pkg) {
			continue
		}
		local = path.Base(pkg)
		if i.Name != nil {
			local = i.Name.Name
		}
	}
	if local == "" {
		return nil
	}
	var found []*ast.SelectorExpr
	for n := range ast.Preorder(s.file) {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			continue
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok || x.Name != local {
			continue
		}
		for _, name := range names {
			if sel.Sel.Name == name {
				found = append(found, sel)
			}
		}
	}
	return found
}

// walk calls visit with every regular file of the repository, except caches, output and testdata.
func walk(t *testing.T, visit func(name string, text []byte) error) {
	t.Helper()
	root := os.DirFS(".")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			switch d.Name() {
			case ".git", ".cache", "bin", "testdata", "node_modules":
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return visit(name, text)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sources returns every Go file of the repository.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	walk(t, func(name string, text []byte) error {
		if path.Ext(name) != ".go" {
			return nil
		}
		s, err := newSource(name, text)
		all = append(all, s)
		return err
	})
	if len(all) == 0 {
		t.Fatal("found no Go file: does TestMain change to the root of the repository?")
	}
	return all
}

// madeUp parses files from alternating names and texts.
func madeUp(t *testing.T, files ...string) []source {
	t.Helper()
	var all []source
	for i := 0; i < len(files); i += 2 {
		s, err := newSource(files[i], []byte(files[i+1]))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

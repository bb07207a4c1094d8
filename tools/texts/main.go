// Command texts prints the texts that users of Holdfast read: errors, log lines, help, the strings
// of the dashboard and of alerts. One line each: kind, place, text. Reviewers read that list.
//
//	GOWORK=off go -C tools run ./texts [-kind error,log,help,ui,alert] [ROOT]
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

func main() {
	kinds := flag.String("kind", "error,log,help,ui,alert", "`kinds` of texts to print, separated by commas")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	found, err := find(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "texts:", err)
		os.Exit(1)
	}
	write(os.Stdout, found, strings.Split(*kinds, ","))
}

// text is one text and its place.
type text struct {
	kind, file string
	line       int
	text       string
}

// write prints the texts of some kinds, one in a line.
func write(w io.Writer, texts []text, kinds []string) {
	for _, t := range texts {
		if slices.Contains(kinds, t.kind) {
			_, _ = fmt.Fprintf(w, "%-5s %s:%d: %s\n", t.kind, t.file, t.line, strings.Join(strings.Fields(t.text), " "))
		}
	}
}

// find returns the texts of the tree at root, in the order of files and lines.
func find(root string) ([]text, error) {
	var found []text
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "testdata", "test", "tools", "proto"}, name) || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		var scan func(name string, b []byte) ([]text, error)
		switch {
		case strings.HasSuffix(name, "_test.go"), strings.HasSuffix(name, "_test.yml"):
			return nil
		case strings.HasSuffix(name, ".go"):
			scan = scanGo
		case strings.Contains(name, "templates") && strings.HasSuffix(name, ".html"):
			scan = scanHTML
		case strings.HasSuffix(name, "alerts.yml"):
			scan = scanAlerts
		default:
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		texts, err := scan(filepath.ToSlash(name), b)
		found = append(found, texts...)
		return err
	})
	return found, err
}

// call is a function with a text: its kind, and the index of the argument.
type call struct {
	kind string
	arg  int
}

// calls returns the functions with texts, by name.
func calls() map[string]call {
	all := map[string]call{}
	for c, names := range map[call]string{
		{"error", 0}: "Errorf New usagef",
		{"log", 0}:   "Error Warn Info Debug",
		{"log", 1}:   "ErrorContext WarnContext InfoContext DebugContext",
		{"help", 2}:  "Var",
		{"help", 3}:  "StringVar BoolVar IntVar DurationVar StringSliceVar StringArrayVar",
		{"help", 4}:  "StringVarP BoolVarP IntVarP",
	} {
		for name := range strings.FieldsSeq(names) {
			all[name] = c
		}
	}
	return all
}

// scanGo returns the texts of errors, log lines and help in a Go file.
func scanGo(name string, b []byte) ([]text, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, b, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	var found []text
	add := func(kind string, e ast.Expr) {
		if s := literal(e); strings.Contains(s, " ") { // a single word is a name
			found = append(found, text{kind, name, fset.Position(e.Pos()).Line, s})
		}
	}
	known := calls()
	for n := range ast.Preorder(file) {
		switch x := n.(type) {
		case *ast.CallExpr:
			fun := ""
			switch f := x.Fun.(type) {
			case *ast.SelectorExpr:
				fun = f.Sel.Name
			case *ast.Ident:
				fun = f.Name
			}
			if c, ok := known[fun]; ok && c.arg < len(x.Args) {
				add(c.kind, x.Args[c.arg])
			}
			if fun == "Errorf" && len(x.Args) > 1 { // status.Errorf(code, format)
				add("error", x.Args[1])
			}
		case *ast.KeyValueExpr:
			if key, ok := x.Key.(*ast.Ident); ok &&
				slices.Contains([]string{"Short", "Long", "Example", "Help", "Usage"}, key.Name) {
				add("help", x.Value)
			}
		}
	}
	return found, nil
}

// literal returns the value of a constant string expression, or "" for any other.
func literal(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.BasicLit:
		if x.Kind == token.STRING {
			s, _ := strconv.Unquote(x.Value)
			return s
		}
	case *ast.BinaryExpr:
		return literal(x.X) + literal(x.Y)
	}
	return ""
}

// markup matches elements and actions of a template.
var markup = regexp.MustCompile(`(?s)\{\{.*?\}\}|<script.*?</script>|<style.*?</style>|<[^>]*>`)

// scanHTML returns the texts between the elements of a page.
func scanHTML(name string, b []byte) ([]text, error) {
	var found []text
	// Markup becomes as many line breaks as it had, so that lines keep their numbers.
	plain := markup.ReplaceAllFunc(b, func(m []byte) []byte {
		return append([]byte{0}, bytes.Repeat([]byte{'\n'}, bytes.Count(m, []byte{'\n'}))...)
	})
	for i, line := range strings.Split(string(plain), "\n") {
		for part := range strings.SplitSeq(line, "\x00") {
			if part = strings.TrimSpace(part); strings.ContainsFunc(part, unicode.IsLetter) {
				found = append(found, text{"ui", name, i + 1, part})
			}
		}
	}
	return found, nil
}

// annotation matches a line of an alert that people read.
var annotation = regexp.MustCompile(`^\s*(?:summary|description|message):\s*(.+)$`)

// scanAlerts returns the annotations of alerts.
func scanAlerts(name string, b []byte) ([]text, error) {
	var found []text
	for i, line := range strings.Split(string(b), "\n") {
		if m := annotation.FindStringSubmatch(line); m != nil {
			found = append(found, text{"alert", name, i + 1, strings.Trim(m[1], `"'`)})
		}
	}
	return found, nil
}

package style

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// identifier is a name that a file of the repository gives to something.
type identifier struct {
	file string
	line int
	name string
}

var (
	// compound matches strings that are a name of two or more parts: a flag, metric, key or reason.
	compound = regexp.MustCompile(`^[a-z0-9]+([-_.][a-z0-9]+)+$`)
	// tagged matches the names in the tag of a field.
	tagged = regexp.MustCompile(`[a-z]+:"([a-z][A-Za-z0-9_]*)`)

	inProto = regexp.MustCompile(`(?:\b(?:message|enum|service|rpc|oneof) (\w+))|(?:\b(\w+) = \d)`)
	inRules = regexp.MustCompile(`alert: (\w+)|"title": "([^"]*)"|\b(holdfast_\w+)`)
	inShell = regexp.MustCompile(`^(\w+)\(\)`)
)

// parts returns the words of a name in lower case: of lookBMCTwice look, bmc and twice.
func parts(name string) []string {
	var all []string
	runes := []rune(name)
	begin := 0
	end := func(i int) {
		if i > begin {
			all = append(all, strings.ToLower(string(runes[begin:i])))
		}
		begin = i
	}
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			end(i)
			begin = i + 1
		case i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			end(i)
		}
	}
	end(len(runes))
	return all
}

// identifiers returns the names that a Go file declares, the flags, labels of metrics and keys of
// logs in it, every string that is a name of several parts, and the name of the file. It leaves out
// names that the file only uses, because they can be those of a library.
func (s source) identifiers() []identifier {
	all := []identifier{{s.path, 1, path.Base(s.path)}}
	add := func(n ast.Node, name string) { all = append(all, identifier{s.path, s.line(n.Pos()), name}) }
	names := func(exprs ...ast.Expr) {
		for _, e := range exprs {
			if id, ok := e.(*ast.Ident); ok {
				add(id, id.Name)
			}
		}
	}
	for n := range ast.Preorder(s.file) {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Name, n.Name.Name)
		case *ast.TypeSpec:
			add(n.Name, n.Name.Name)
		case *ast.ValueSpec:
			for _, name := range n.Names {
				add(name, name.Name)
			}
		case *ast.Field:
			for _, name := range n.Names {
				add(name, name.Name)
			}
			if n.Tag != nil {
				for _, m := range tagged.FindAllStringSubmatch(n.Tag.Value, -1) {
					add(n.Tag, m[1])
				}
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				names(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				names(n.Key, n.Value)
			}
		case *ast.CallExpr:
			for _, lit := range keys(n) {
				if name, err := strconv.Unquote(lit.Value); err == nil && !compound.MatchString(name) {
					add(lit, name)
				}
			}
		case *ast.BasicLit:
			if name, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && compound.MatchString(name) {
				add(n, name)
			}
		}
	}
	return all
}

// flagMethods matches the methods that declare a flag of the command line.
var flagMethods = regexp.MustCompile(
	`^(String|Bool|U?[iI]nt(64)?|Float64|Duration|StringSlice|StringArray|StringToString|Count|Func)?(Var)?P?$`)

// keys returns the strings of a call that are names of one part or more: of a flag, of the labels
// of a metric, or keys of a line of the log.
func keys(call *ast.CallExpr) []*ast.BasicLit {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	var exprs []ast.Expr
	switch name := method.Sel.Name; {
	case name == "Debug", name == "Info", name == "Warn", name == "Error":
		for i := 1; i < len(call.Args); i += 2 {
			exprs = append(exprs, call.Args[i])
		}
	case name == "With":
		for i := 0; i < len(call.Args); i += 2 {
			exprs = append(exprs, call.Args[i])
		}
	case flagMethods.MatchString(name):
		for _, arg := range call.Args {
			if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				exprs = append(exprs, lit)
				break
			}
		}
	case strings.HasPrefix(name, "New"):
		for _, arg := range call.Args {
			if labels, ok := arg.(*ast.CompositeLit); ok {
				if _, ok := labels.Type.(*ast.ArrayType); ok {
					exprs = append(exprs, labels.Elts...)
				}
			}
		}
	}
	var all []*ast.BasicLit
	for _, e := range exprs {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			all = append(all, lit)
		}
	}
	return all
}

// textIdentifiers returns the names in a file of another language: those that protos and shell
// scripts declare, and those of alerts, panels and metrics in the monitoring.
func textIdentifiers(file, text string) []identifier {
	var names *regexp.Regexp
	comment := "#"
	switch ext := path.Ext(file); {
	case ext == ".proto":
		names, comment = inProto, "//"
	case ext == ".sh":
		names = inShell
	case strings.HasPrefix(file, "deploy/monitoring/") && (ext == ".yml" || ext == ".json"):
		names = inRules
	default:
		return nil
	}
	var all []identifier
	n := 0
	for line := range strings.Lines(text) {
		n++
		code, _, _ := strings.Cut(line, comment)
		for _, m := range names.FindAllStringSubmatch(code, -1) {
			name := strings.ReplaceAll(strings.Join(m[1:], ""), " ", "-") // a title has several words
			all = append(all, identifier{file, n, name})
		}
	}
	return all
}

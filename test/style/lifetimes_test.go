package style

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lifetimeTable is the only package with lifetimes of leases, and intervals of their heartbeats.
const lifetimeTable = "fsm/internal/lifetime"

// otherLifetimes lists constants that are named like lifetimes of leases, with the reason.
func otherLifetimes() map[string]string {
	return map[string]string{
		"server/issuer.DefaultTTL":               "of access tokens",
		"server/internal/access.MaxTokenTTL":     "of tokens",
		"server/internal/access.defaultTokenTTL": "of tokens",
		"server/internal/signin.Lifetime":        "of a sign-in",
		"providers/kube.TokenTTL":                "of bootstrap tokens",
		"executor/bootstrap.ttl":                 "of the tokens of a cluster",
		"tools/redisgateway.ttl":                 "of a rival's machines",
		"tools/redisgateway.lockTTL":             "of a rival's lock",
	}
}

// checkLifetimes lists the constants outside of the table that are named like a lifetime of a lease
// or an interval of its heartbeats, and the literal TTLs of commands.
func checkLifetimes(files []source, except map[string]string) []string {
	var found []string
	add := func(s source, at token.Pos, problem string) {
		found = append(found, s.at(at)+": "+problem+" "+lifetimeTable)
	}
	for _, s := range files {
		folder := path.Dir(s.path)
		if s.generated() || s.isTest() || folder == lifetimeTable || strings.HasSuffix(folder, "test") {
			continue
		}
		for n := range ast.Preorder(s.file) {
			switch n := n.(type) {
			case *ast.GenDecl:
				for _, name := range constants(n) {
					if _, ok := except[folder+"."+name.Name]; !ok && namesLifetime(name.Name) {
						add(s, name.Pos(), "constant "+name.Name+": move the lifetime into")
					}
				}
			case *ast.KeyValueExpr:
				key, ok := n.Key.(*ast.Ident)
				if _, literal := n.Value.(*ast.BasicLit); ok && literal && (key.Name == "TtlMs" || key.Name == "PendingTtlMs") {
					add(s, n.Pos(), key.Name+" is a number: read the lifetime from")
				}
			}
		}
	}
	return found
}

// constants returns the names of the constants that a declaration declares.
func constants(d *ast.GenDecl) (names []*ast.Ident) {
	if d.Tok != token.CONST {
		return nil
	}
	for _, spec := range d.Specs {
		names = append(names, spec.(*ast.ValueSpec).Names...)
	}
	return names
}

// namesLifetime reports whether a name is that of a lifetime of a lease: it has the word TTL or
// lifetime, or an owner of leases and the word interval or limit.
func namesLifetime(name string) bool {
	words := parts(name)
	has := func(of ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(of, w) })
	}
	return has("ttl", "lifetime") || len(words) == 2 && has("interval", "limit") &&
		has("machine", "agent", "pool", "service", "install", "keepalive", "heartbeat")
}

func TestLifetimesAreInOneTable(t *testing.T) {
	all := sources(t)
	for _, f := range checkLifetimes(all, otherLifetimes()) {
		t.Error(f)
	}
	none := strings.Join(checkLifetimes(all, nil), "\n")
	for name := range otherLifetimes() {
		if _, c, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], "."); !strings.Contains(none, "constant "+c+":") {
			t.Errorf("the exception %s names no constant: delete it", name)
		}
	}
}

func TestCheckLifetimes(t *testing.T) {
	files := madeUp(t,
		"a/a.go", "package a\nconst poolTTL = 1\nconst tokenTTL = 2\n"+
			"const (\npoolInterval = 3\ninstallLimit = 4\npoolLimitText = 5\n)\n"+
			"var _ = v1.RegisterPool{TtlMs: 15000}\nvar _ = v1.RegisterPool{TtlMs: ttl}\n",
		lifetimeTable+"/a.go", "package lifetime\nconst poolTTL = 1\n",
		"a/a_test.go", "package a\nconst poolTTL = 1\n",
	)
	want := []string{
		"a/a.go:2: constant poolTTL: move the lifetime into " + lifetimeTable,
		"a/a.go:5: constant poolInterval: move the lifetime into " + lifetimeTable,
		"a/a.go:6: constant installLimit: move the lifetime into " + lifetimeTable,
		"a/a.go:9: TtlMs is a number: read the lifetime from " + lifetimeTable,
	}
	if diff := cmp.Diff(want, checkLifetimes(files, map[string]string{"a.tokenTTL": "of tokens"})); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

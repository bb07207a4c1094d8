package style

import (
	"go/ast"
	"strings"
	"testing"
)

// dialers are the files of a peer that connect, or make a client that does, and why the address
// cannot be one that a caller of the API must not reach. Every other file gets its transport or
// its dialer from these.
func dialers() map[string]string {
	return map[string]string{
		"server/egress/egress.go":             "it is the policy",
		"providers/guard/guard.go":            "it is the policy for endpoints of machines",
		"providers/guard/place.go":            "the same",
		"providers/bmc/config.go":             "connects by guard",
		"providers/fake/client.go":            "the fake hardware of a lab, which the configuration names",
		"providers/fake/provider.go":          "the same",
		"providers/kube/cluster.go":           "connects by guard",
		"providers/ironic/config.go":          "connects by guard",
		"internal/images/depot.go":            "gets the transport of egress; other peers are its only other servers",
		"executor/webhook/sender.go":          "gets the transport of egress",
		"server/auth/issuers.go":              "gets the transport of egress",
		"server/auth/signin.go":               "the same",
		"server/auth/gate.go":                 "a default for tests",
		"cluster/internal/transport/dial.go":  "other peers",
		"cluster/internal/joinwatch/probe.go": "other peers",
		"cluster/freeport/freeport.go":        "this host, in tests",
	}
}

// checkDialers returns the places that connect outside of those files. Programs of users and
// machines are no peers.
func checkDialers(files []source, known map[string]string) []string {
	var bad []string
	for _, s := range files {
		at, _, _ := strings.Cut(s.path, "/")
		peer := at == "server" || at == "cluster" || at == "executor" || at == "providers" || at == "fsm" ||
			strings.HasPrefix(s.path, "cmd/holdfast/") || strings.HasPrefix(s.path, "internal/images/") ||
			strings.HasPrefix(s.path, "internal/archive/") || strings.HasPrefix(s.path, "internal/secrets/") ||
			strings.HasPrefix(s.path, "internal/hardware/")
		if !peer || s.isTest() || s.inTestFile() || known[s.path] != "" ||
			strings.HasPrefix(s.path, "providers/ironic/ironiclab/") || strings.HasPrefix(s.path, "cluster/clustertest/") {
			continue
		}
		report := func(n ast.Node, what string) {
			bad = append(bad, s.at(n.Pos())+": "+what+
				" connects without the policy of addresses: use server/egress or providers/guard, or explain it in dialers()")
		}
		for pkg, names := range map[string][]string{
			"net": {"Dialer", "Dial", "DialTimeout", "DialTCP", "DialUDP"},
			"net/http": {"DefaultTransport", "DefaultClient", "Client", "Transport", "Get", "Post", "PostForm",
				"Head"},
			"crypto/tls":              {"Dial", "DialWithDialer", "Dialer"},
			"golang.org/x/crypto/ssh": {"Dial"},
		} {
			for _, n := range s.uses(pkg, names...) {
				if _, isType := n.X.(*ast.Ident); isType && !onlyNamed(s, n) {
					report(n, pkg+"."+n.Sel.Name)
				}
			}
		}
	}
	return bad
}

// onlyNamed reports whether a selector names the type of a pointer, such as *http.Client in a
// field: that makes no connection.
func onlyNamed(s source, sel *ast.SelectorExpr) bool {
	for n := range ast.Preorder(s.file) {
		if p, ok := n.(*ast.StarExpr); ok && p.X == ast.Expr(sel) {
			return true
		}
	}
	return false
}

// TestDialers fails for code of a peer that connects without the policy of addresses.
func TestDialers(t *testing.T) {
	files := sources(t)
	for _, bad := range checkDialers(files, dialers()) {
		t.Error(bad)
	}
	there := map[string]bool{}
	for _, s := range files {
		there[s.path] = true
	}
	for path := range dialers() {
		if !there[path] {
			t.Errorf("dialers names %s, which does not exist", path)
		}
	}
}

func TestCheckDialers(t *testing.T) {
	for text, want := range map[string]int{
		"import \"net\"\n\nvar d net.Dialer":                                1,
		"import \"net\"\n\nvar c, e = net.Dial(\"tcp\", \"a:1\")":           1,
		"import \"net/http\"\n\nvar c = &http.Client{}":                     1,
		"import \"net/http\"\n\nvar c *http.Client":                         0,
		"import \"net/http\"\n\nvar t = http.DefaultTransport":              1,
		"import \"net\"\n\nvar l, e = net.Listen(\"tcp\", \"127.0.0.1:0\")": 0,
	} {
		files := madeUp(t, "server/a.go", "package server\n\n"+text+"\n")
		if got := checkDialers(files, nil); len(got) != want {
			t.Errorf("%q: got %v, want %d findings", text, got, want)
		}
	}
}

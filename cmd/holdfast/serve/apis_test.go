package serve

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/inproc"
	"github.com/holdfast-metal/holdfast/server/netbootapi"
	"github.com/holdfast-metal/holdfast/server/openapi"
	"github.com/holdfast-metal/holdfast/server/ui/history"
)

// uncalled is the node of a server that only registers its routes.
type uncalled struct{ server.Cluster }

// TestRoutesAreDocumented checks that docs/permissions.md has every HTTP route, as
// in the server, and that openapi.yaml has all routes except those of pages and of holdfast.v1.
func TestRoutesAreDocumented(t *testing.T) {
	m := auth.Open().NewMux()
	srv := server.New(server.Config{}, uncalled{}, fsm.New(), providers.SetOf(nil))
	for _, add := range apis(srv, netbootapi.Config{}, history.New(history.Config{}, nil, nil),
		secrets.NewSessions(nil, time.Now), slog.New(slog.DiscardHandler)) {
		add(m, inproc.New(nil, nil))
	}
	doc, err := os.ReadFile("../../../docs/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(doc), "| route of the HTTP APIs | who |\n|---|---|\n")
	if !ok {
		t.Fatal("docs/permissions.md has no table of the HTTP APIs' routes")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	described := string(openapi.File())
	rows := map[string]bool{}
	for row := range strings.SplitSeq(strings.TrimSpace(table), "\n") {
		rows[row] = true
	}
	routes := 0
	for _, r := range m.Routes() {
		if strings.HasSuffix(r.Pattern, "/{$}") {
			continue // the same with a trailing slash
		}
		if strings.Contains(r.Pattern, " /v1/") {
			continue // by the rule of its method, in v1.json: see packages jsonapi and openapi
		}
		routes++
		method, path, _ := strings.Cut(r.Pattern, " ")
		_, of, ok := strings.Cut(described, "\n  "+path+":\n")
		of, _, _ = strings.Cut(of, "\n  /")
		if !forPeople(path) && (!ok || !strings.Contains(of, "    "+strings.ToLower(method)+":\n")) {
			t.Errorf("server/openapi/openapi.yaml lacks %s", r.Pattern)
		}
		if want := "| `" + r.Pattern + "` | " + r.Rule.Needs() + " |"; !rows[want] {
			t.Errorf("docs/permissions.md lacks the row\n%s", want)
		}
	}
	if len(rows) != routes {
		t.Errorf("docs/permissions.md has %d routes, there are %d", len(rows), routes)
	}
}

// forPeople reports whether a path is of a page, which openapi.yaml does not describe.
func forPeople(path string) bool {
	return strings.HasPrefix(path, "/ui/") || strings.HasPrefix(path, "/docs")
}

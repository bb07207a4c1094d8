package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	"github.com/holdfast-metal/holdfast/internal/cli/login"
	"github.com/holdfast-metal/holdfast/internal/oidctest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestLogin: the sign-in is stored for the context and used for its calls, until it is deleted.
func TestLogin(t *testing.T) {
	p := oidctest.New(t, oidctest.Settings{ClientID: "cli", Audience: "holdfast"})
	f := clitest.Start(t, &clitest.Cluster{Issuers: []*holdfastv1.Issuer{
		{Issuer: "https://other.example", DisplayName: "Dashboard only"},
		{Issuer: p.URL, DisplayName: "Example SSO", ClientId: "cli", Audience: "holdfast", Scopes: []string{"openid"}},
	}})
	file := filepath.Join(t.TempDir(), "config.yaml")
	env := map[string]string{"HOLDFAST_CONTEXTS": file, "HOLDFAST_ADDR": ""}
	run := func(want int, args ...string) string {
		t.Helper()
		c := clitest.Command{Env: env}
		c.WantCode(t, c.Run(t, f, args...), want)
		return c.Err.String()
	}
	clitest.WantIn(t, "no context", run(app.ExitUsage, "login"), "no context is selected")
	run(app.ExitOK, "context", "set", "lab", "--addr", f.Addr, "--token", "old")
	clitest.WantIn(t, "login", run(app.ExitOK, "login"), "Open "+p.URL+"/activate and enter the code "+oidctest.UserCode,
		"Waiting until", "you are signed in to context lab as token:ci (operator", "while Example SSO refreshes")
	store := login.At(file, "lab")
	saved, ok, err := store.Load()
	if err != nil || !ok {
		t.Fatalf("got %t, %v", ok, err)
	}
	used := func(token string) {
		t.Helper()
		f.Mu.Lock()
		defer f.Mu.Unlock()
		if got := f.Meta.Get("authorization"); len(got) != 1 || got[0] != "Bearer "+token {
			t.Errorf("got authorization %.20q, want %.20q", got, token)
		}
	}
	used(saved.Token)
	run(app.ExitOK, "whoami")
	used(saved.Token)
	run(app.ExitOK, "--token", "flag", "whoami")
	used("flag")

	saved.Expires = time.Unix(0, 0)
	if err := store.Save(saved); err != nil {
		t.Fatal(err)
	}
	run(app.ExitOK, "whoami")
	next, _, err := store.Load()
	if err != nil || next.Refresh == saved.Refresh {
		t.Errorf("got refresh token %.20q, %v, want another one", next.Refresh, err)
	}
	used(next.Token)
	p.Set(func(s *oidctest.Settings) { s.NoRefresh = true })
	next.Expires = time.Unix(0, 0)
	if err := store.Save(next); err != nil {
		t.Fatal(err)
	}
	text := run(app.ExitError, "whoami")
	clitest.WantIn(t, "ended", text, "has ended: run: holdfast login")
	if strings.Contains(text, "--token") || strings.Contains(text, "transport:") {
		t.Errorf("got %q, want one remedy", text)
	}
	run(app.ExitOK, "logout")
	run(app.ExitOK, "logout")
	run(app.ExitOK, "whoami")
	used("old")
	if err := store.Save(next); err != nil {
		t.Fatal(err)
	}
	run(app.ExitOK, "context", "delete", "lab")
	left, err := os.ReadDir(filepath.Join(filepath.Dir(file), "config-logins"))
	if err != nil || len(left) != 0 {
		t.Errorf("got files %v (%v), want none", left, err)
	}
}

func TestLoginErrors(t *testing.T) {
	one := &holdfastv1.Issuer{Issuer: "https://a.example", DisplayName: "A", ClientId: "cli"}
	two := &holdfastv1.Issuer{Issuer: "https://b.example", DisplayName: "B", ClientId: "cli"}
	down := oidctest.New(t, oidctest.Settings{Down: true})
	for _, tt := range []struct {
		name    string
		issuers []*holdfastv1.Issuer
		args    []string
		code    int
		want    string
	}{
		{"no issuer", nil, nil, app.ExitConflict, "has no issuer for holdfast login"},
		{"dashboard only", []*holdfastv1.Issuer{{Issuer: "https://a.example"}}, nil, app.ExitConflict, "cli_client_id"},
		{"several", []*holdfastv1.Issuer{one, two}, nil, app.ExitUsage, `give one with --issuer: "A", "B"`},
		{"unknown", []*holdfastv1.Issuer{one, two}, []string{"--issuer", "C"}, app.ExitNotFound, `issuer "C" not found`},
		{"plain http", []*holdfastv1.Issuer{{Issuer: "http://a.example", ClientId: "cli"}}, nil, app.ExitError,
			"want https"},
		{"down", []*holdfastv1.Issuer{{Issuer: down.URL, ClientId: "cli"}}, nil, app.ExitError,
			"read the discovery document"},
	} {
		f := clitest.Start(t, &clitest.Cluster{Issuers: tt.issuers})
		env := map[string]string{"HOLDFAST_CONTEXTS": filepath.Join(t.TempDir(), "config.yaml"), "HOLDFAST_ADDR": ""}
		c := clitest.Command{Env: env}
		c.WantCode(t, c.Run(t, f, "context", "set", "lab", "--addr", f.Addr), app.ExitOK)
		c = clitest.Command{Env: env}
		c.WantCode(t, c.Run(t, f, append([]string{"login"}, tt.args...)...), tt.code)
		clitest.WantIn(t, tt.name, c.Err.String(), tt.want)
	}
	env := map[string]string{"HOLDFAST_CONTEXTS": filepath.Join(t.TempDir(), "config.yaml"), "HOLDFAST_ADDR": ""}
	c := clitest.Command{Env: env}
	c.WantCode(t, c.Run(t, nil, "context", "set", "far", "--addr", "n1.example:7400"), app.ExitOK)
	c.WantCode(t, c.Run(t, nil, "login"), app.ExitUsage)
	clitest.WantIn(t, "without TLS", c.Err.String(), "without TLS")
}

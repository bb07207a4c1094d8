package oidc

import (
	"net/http"
	"testing"
)

// TestSignIn signs people in with the provider: at the dashboard, at the command line and in
// Chromium.
func TestSignIn(t *testing.T) {
	l := newLab(t, false)
	l.scene(t, "dashboard", func(t *testing.T) { testDashboard(t, l) })
	l.scene(t, "command line", func(t *testing.T) { testLogin(t, l) })
	l.scene(t, "Chromium", func(t *testing.T) { testChromium(t, l) })
}

// TestOneClient signs people in with one public client and ID tokens.
func TestOneClient(t *testing.T) {
	l := newLab(t, true)
	l.scene(t, "dashboard", func(t *testing.T) {
		p := l.person(t)
		p.has(p.authenticate(p.press(p.open(l.home+"/ui/")), "alice", password), http.StatusOK, l.name("alice"), "operator")
	})
	l.scene(t, "command line", func(t *testing.T) {
		l.idp.lasts.Store(20) // each call refreshes it
		w := l.login(t, "--browser")
		p := l.person(t)
		p.has(p.authenticate(p.open(w.sees(browse)[0]), "alice", password), http.StatusOK, "You are signed in.")
		if out, code := w.ends(); code != 0 {
			t.Fatalf("got exit code %d and %s", code, out)
		}
		first := l.saved(t)
		l.ok("machine", "list")
		if next := l.saved(t); next.Refresh == first.Refresh {
			t.Error("the token was not refreshed")
		}
	})
}

package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestSession: a token opens every page until it is revoked or the browser signs out. Its
// cookie is valid for the dashboard only.
func TestSession(t *testing.T) {
	l := lab(t)
	has(t, get(l, "", "/ui/machines?filter=x"), 401, []string{"Sign in", `name="next" value="/ui/machines?filter=x"`},
		"data-live")
	w := post(l, "", "/ui/signin", url.Values{"token": {" " + l.Secret("operator") + "\n"}, "next": {"/ui/runs"}})
	if w.Code != 303 || w.Header().Get("Location") != "/ui/runs" {
		t.Errorf("got %d to %s", w.Code, w.Header().Get("Location"))
	}
	c := w.Result().Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/ui/" || c.Secure ||
		strings.Contains(c.Value, l.Secret("operator")) {
		t.Errorf("got cookie %+v", c)
	}
	withCookie := func(path, value string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.AddCookie(&http.Cookie{Name: c.Name, Value: value})
		return do(l, "", r)
	}
	has(t, withCookie("/ui/runs", c.Value), 200, []string{"token:operator"})
	has(t, withCookie("/ui/runs", c.Value[:len(c.Value)-8]+"AAAAAAAA"), 401,
		[]string{"the session has expired", "Sign in"})
	bearer := httptest.NewRequest(http.MethodGet, "/ui/runs", nil)
	bearer.Header.Set("Authorization", "Bearer "+c.Value)
	has(t, do(l, "", bearer), 401, []string{"Sign in"}) // the cookie is not a token
	r := httptest.NewRequest(http.MethodPost, "https://example.com/ui/signin", nil)
	r.PostForm = url.Values{"token": {"x"}}
	r.Form = r.PostForm
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	over := do(l, "", r)
	if c := over.Result().Cookies(); len(c) != 1 || !c[0].Secure || c[0].Name != "__Host-holdfast_token" ||
		c[0].Path != "/" || c[0].Domain != "" {
		t.Errorf("TLS: got cookies %+v", c)
	}
	if got, want := over.Header().Get("Strict-Transport-Security"), "max-age=31536000"; got != want {
		t.Errorf("TLS: got Strict-Transport-Security %q, want %q", got, want)
	}
	if got := w.Header().Get("Strict-Transport-Security"); got != "" {
		t.Errorf("without TLS: got Strict-Transport-Security %q, want none", got)
	}
	has(t, get(l, "operator", "/ui/runs"), 200, []string{"token:operator", "operator"})
	has(t, get(l, "operator", "/api/v1/nodes"), 404, nil) // not served here
	has(t, withCookie("/metrics", c.Value), 401, nil)     // the cookie is for the dashboard only
	stolen := c.Value
	out := httptest.NewRequest(http.MethodPost, "/ui/signout", nil)
	out.Header.Set("Sec-Fetch-Site", "same-origin")
	out.AddCookie(&http.Cookie{Name: c.Name, Value: stolen})
	if w := do(l, "", out); w.Code != 303 || len(w.Result().Cookies()) != 1 || w.Result().Cookies()[0].MaxAge != -1 {
		t.Errorf("sign out: got %d, %+v", w.Code, w.Result().Cookies())
	}
	has(t, withCookie("/ui/runs", stolen), 401, []string{"the session was ended", "Sign in"}) // a copy of it
	for s := range l.State().Sessions("") {
		if s.GetPrincipal() != "token:operator" || s.GetKind() != "dashboard" || s.GetEndedBy() != "token:operator" {
			t.Errorf("got session %v, want an ended one of the operator", s)
		}
	}
	l.Revoke("operator")
	has(t, get(l, "operator", "/ui/runs"), 401, []string{"revoked", "Sign in"})
	if c := post(l, "", "/ui/signout", nil).Result().Cookies(); len(c) != 1 || c[0].MaxAge != -1 {
		t.Errorf("after signing out: got %+v", c)
	}
	// A link from another site arrives without the cookie, so the browser reloads from here.
	// from here.
	r = httptest.NewRequest(http.MethodGet, "/ui/runs", nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	has(t, do(l, "", r), 401, []string{`http-equiv="refresh"`}, "Sign in")
}

// TestSignInRedirect checks that the redirect after signing in is always a page of the dashboard.
func TestSignInRedirect(t *testing.T) {
	l := lab(t)
	for _, next := range []string{"https://evil.example/ui/", "//evil.example/ui/", "/\\evil.example", "/ui/../x",
		"/api/v1/nodes", "/ui/signin", "javascript:alert(1)", "/ui/%2e%2e/x", "\r\n/ui/", ""} {
		w := post(l, "", "/ui/signin", url.Values{"token": {"x"}, "next": {next}})
		if got := w.Header().Get("Location"); w.Code != 303 || got != "/ui/" {
			t.Errorf("%q: got %d to %q", next, w.Code, got)
		}
	}
	for _, token := range []string{"", "two words", "a;b", "ü", string(make([]byte, 5000))} {
		has(t, post(l, "", "/ui/signin", url.Values{"token": {token}}), 400, []string{"That is not a token"})
	}
}

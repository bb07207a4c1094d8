package auth

import (
	"net/http"
	"net/http/httptest"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestOpeningThePageIsNoRefusal checks that the audit trail has an event for a wrong token, and
// none for a browser that opens the dashboard before anybody has signed in.
func TestOpeningThePageIsNoRefusal(t *testing.T) {
	for _, tt := range []struct {
		name, method, path, cookie, header string
		events                             int
	}{
		{"page without a cookie", "GET", "/ui/", "", "", 0},
		{"page with a wrong cookie", "GET", "/ui/", "hf_wrong", "", 1},
		{"page with a wrong token", "GET", "/ui/", "", "Bearer hf_wrong", 1},
		{"change without a cookie", "POST", "/ui/", "", "", 1},
		{"API without a token", "GET", "/v1/x", "", "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate(t, &fakeRecords{}, Config{})
			m := g.NewMux()
			m.HandleFunc("GET /v1/x", Least(holdfastv1.Role_VIEWER), nil, func(http.ResponseWriter, *http.Request) {})
			pages := m.WithCookie("c", func(v string) (Cookie, bool) { return Cookie{ID: "s", Token: v}, true })
			pages.HandleFunc("/ui/", Least(holdfastv1.Role_VIEWER), nil, func(http.ResponseWriter, *http.Request) {})
			r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, nil)
			if tt.cookie != "" {
				r.AddCookie(&http.Cookie{Name: "c", Value: tt.cookie})
			}
			if tt.header != "" {
				r.Header.Set("Authorization", tt.header)
			}
			w := httptest.NewRecorder()
			m.ServeHTTP(w, r)
			if w.Code != http.StatusUnauthorized {
				t.Errorf("got status %d, want 401", w.Code)
			}
			g.denials.mu.Lock()
			defer g.denials.mu.Unlock()
			if n := len(g.denials.kept.order) + len(g.denials.merged.order); n != tt.events {
				t.Errorf("got %d audit events, want %d", n, tt.events)
			}
		})
	}
}

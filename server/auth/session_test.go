package auth

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestEndedSession checks that a session is noted once, that its cookie is refused after it was
// ended, on the page and in an open stream, and that the token itself stays valid.
func TestEndedSession(t *testing.T) {
	f := &fakeRecords{}
	secret := f.issue(&holdfastv1.Token{TokenId: "t-1", Name: "ann", Role: holdfastv1.Role_VIEWER})
	var mu sync.Mutex
	state := map[string]*holdfastv1.Session{}
	deps := f.deps()
	deps.Session = func(id string) (*holdfastv1.Session, bool) {
		mu.Lock()
		defer mu.Unlock()
		s, ok := state[id]
		return s, ok
	}
	commands := 0
	deps.Note = func(_ context.Context, n *internalv1.NoteSessions) error {
		mu.Lock()
		defer mu.Unlock()
		commands++
		for _, s := range n.GetSessions() {
			state[s.GetSessionId()] = s
		}
		return nil
	}
	g, err := New(Config{PeerID: "n1", Cluster: "c1"}, deps)
	if err != nil {
		t.Fatal(err)
	}
	var caller *Caller
	m := g.NewMux()
	expires := time.Now().Add(time.Hour)
	page := m.WithCookie("session", func(string) (Cookie, bool) {
		return Cookie{ID: "s-1", Token: secret, Expires: expires}, true
	})
	page.HandleFunc("GET /ui/x", Rule{Anyone: true}, nil, func(_ http.ResponseWriter, r *http.Request) {
		caller = CallerFrom(r.Context())
	})
	m.HandleFunc("GET /v1/x", Rule{Anyone: true}, nil, func(http.ResponseWriter, *http.Request) {})
	get := func(path, header, value string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header.Set(header, value)
		w := httptest.NewRecorder()
		m.ServeHTTP(w, r)
		return w.Code
	}
	for range 2 {
		if got := get("/ui/x", "Cookie", "session=x"); got != http.StatusOK {
			t.Fatalf("got %d, want 200", got)
		}
		if err := g.notes.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s := state["s-1"]
	if commands != 1 || s.GetPrincipal() != "token:ann" || s.GetKind() != KindDashboard || s.GetTokenId() != "t-1" {
		t.Errorf("got %d commands, session %v, want one for the dashboard", commands, s)
	}
	ctx, release := Until(NewContext(t.Context(), caller))
	defer release()
	ended := proto.CloneOf(s)
	ended.EndedAt = timestamppb.Now()
	mu.Lock()
	state["s-1"] = ended
	mu.Unlock()
	if got := get("/ui/x", "Cookie", "session=x"); got != http.StatusUnauthorized {
		t.Errorf("after its end: got %d, want 401", got)
	}
	if _, refused := g.recheck(caller, caller.seen); refused == nil || refused.Reason != fsm.ReasonSessionEnded {
		t.Errorf("a call in flight: got %v, want %s", refused, fsm.ReasonSessionEnded)
	}
	select {
	case <-ctx.Done():
	case <-time.After(30 * time.Second):
		t.Error("a stream of the ended session is still open after 30 s")
	}
	if got := get("/v1/x", "Authorization", "Bearer "+secret); got != http.StatusOK {
		t.Errorf("the token: got %d, want 200", got)
	}
}

// TestTokenLife checks that a token of an issuer is accepted for a limited time, whatever its
// expiry.
func TestTokenLife(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	for _, tt := range []struct {
		name        string
		issued, end time.Duration // 0: the claim is missing
		want        time.Duration // of its end
		reason      string
	}{
		{"an hour", -time.Minute, time.Hour, time.Hour, ""},
		{"30 years", -time.Minute, 30 * 365 * 24 * time.Hour, 24*time.Hour - time.Minute, ""},
		{"30 years, a day ago", -25 * time.Hour, 30 * 365 * 24 * time.Hour, 0, ReasonTokenExpired},
		{"without iat", 0, time.Hour, time.Hour, ""},
		{"30 years without iat", 0, 30 * 365 * 24 * time.Hour, 0, ReasonTokenInvalid},
		{"issued in the future", 29 * 365 * 24 * time.Hour, 30 * 365 * 24 * time.Hour, 0, ReasonTokenEarly},
		{"a clock that is ahead by seconds", 30 * time.Second, time.Hour, time.Hour, ""},
	} {
		i := &issuer{cfg: Issuer{URL: "https://sso.example", MaxTokenHours: 24}, now: func() time.Time { return now }}
		token := &oidc.IDToken{Expiry: now.Add(tt.end)}
		if tt.issued != 0 {
			token.IssuedAt = now.Add(tt.issued)
		}
		got, err := i.endOf(token)
		switch {
		case tt.reason == "" && (err != nil || !got.Equal(now.Add(tt.want))):
			t.Errorf("%s: got %s, %v, want %s", tt.name, got, err, now.Add(tt.want))
		case tt.reason != "" && (err == nil || err.Reason != tt.reason):
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.reason)
		}
	}
}

// TestSessionID checks that the tokens of one sign-in have one session, and others do not.
func TestSessionID(t *testing.T) {
	id := func(issuer, subject string, claims map[string]any, token string) string {
		return sessionID(&oidc.IDToken{Issuer: issuer, Subject: subject}, claims, token)
	}
	first := id("a", "ann", map[string]any{"sid": "1", "jti": "x"}, "t1")
	for _, tt := range []struct {
		name string
		got  string
		same bool
	}{
		{"a refreshed token", id("a", "ann", map[string]any{"sid": "1", "jti": "y"}, "t2"), true},
		{"another sign-in", id("a", "ann", map[string]any{"sid": "2", "jti": "x"}, "t1"), false},
		{"another person", id("a", "bob", map[string]any{"sid": "1", "jti": "x"}, "t1"), false},
		{"another issuer", id("b", "ann", map[string]any{"sid": "1", "jti": "x"}, "t1"), false},
	} {
		if (tt.got == first) != tt.same {
			t.Errorf("%s: got %s and %s, want the same: %t", tt.name, first, tt.got, tt.same)
		}
	}
	if a, b := id("a", "ann", nil, "t1"), id("a", "ann", nil, "t2"); a == b {
		t.Errorf("two tokens without sid and jti have the session %s", a)
	}
}

// TestForeignReads checks that a page of another site cannot read with the certificate of a
// browser, that a person can follow a link, and that all answers have the headers against
// embedding.
func TestForeignReads(t *testing.T) {
	g := newGate(t, &fakeRecords{}, Config{Insecure: true})
	m := g.NewMux()
	m.HandleFunc("GET /v1/x", Least(holdfastv1.Role_VIEWER), nil, func(http.ResponseWriter, *http.Request) {})
	for _, tt := range []struct {
		site, mode, dest string
		want             int
	}{
		{"", "", "", http.StatusOK}, // a program
		{"same-origin", "cors", "empty", http.StatusOK},
		{"none", "navigate", "document", http.StatusOK}, // the address bar
		{"cross-site", "navigate", "document", http.StatusOK},
		{"cross-site", "navigate", "iframe", http.StatusForbidden},
		{"cross-site", "no-cors", "image", http.StatusForbidden},
		{"cross-site", "cors", "empty", http.StatusForbidden},
		{"cross-site", "", "", http.StatusForbidden},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/x", nil)
		for name, value := range map[string]string{"Site": tt.site, "Mode": tt.mode, "Dest": tt.dest} {
			if value != "" {
				r.Header.Set("Sec-Fetch-"+name, value)
			}
		}
		w := httptest.NewRecorder()
		m.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s %s %s: got %d, want %d", tt.site, tt.mode, tt.dest, w.Code, tt.want)
		}
		if h := w.Header(); h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s %s %s: got headers %v", tt.site, tt.mode, tt.dest, h)
		}
	}
}

package ui_test

import (
	"net/url"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestSessionsPage checks who sees and ends which sessions, each after a confirmation.
func TestSessionsPage(t *testing.T) {
	l := lab(t)
	now := time.Now()
	session := func(id, principal string) *holdfastv1.Session {
		return &holdfastv1.Session{SessionId: id, Principal: principal, Kind: "dashboard", Method: "token", TokenId: "tok-x",
			Source: "10.0.0.1", StartedAt: timestamppb.New(now), ExpiresAt: timestamppb.New(now.Add(time.Hour))}
	}
	l.Do(&internalv1.NoteSessions{Sessions: []*holdfastv1.Session{session("ui-own", "token:viewer"),
		session("ui-other", "user:"+evil)}})
	has(t, get(l, "admin", "/ui/sessions"), 200, []string{"ui-own", "ui-other", "&lt;script&gt;", "2 sessions<",
		`href="/ui/sessions/ui-other/end">End</a>`}, evil)
	has(t, get(l, "viewer", "/ui/sessions"), 200, []string{"ui-own", "1 session<"}, "ui-other")
	has(t, get(l, "viewer", "/ui/sessions/ui-own/end"), 200, []string{"End the session", "you have to sign in again",
		"Token tok-x stays valid"})
	for _, foreign := range []string{"ui-other", "ui-none", "*", `x" OR state = "active`} {
		path := "/ui/sessions/" + (&url.URL{Path: foreign}).EscapedPath() + "/end"
		has(t, get(l, "viewer", path), 404, []string{"you have no session"}, "10.0.0.1")
		has(t, post(l, "viewer", path, nil), 404, nil)
	}
	if s, _ := l.State().Session("ui-other"); s.GetEndedAt() != nil {
		t.Error("a viewer has ended the session of another person")
	}
	has(t, get(l, "admin", "/ui/sessions/ui-other/end"), 200, []string{"End the session", "&lt;script&gt;"}, evil,
		"you have to sign in again")
	for as, id := range map[string]string{"viewer": "ui-own", "admin": "ui-other"} {
		w := post(l, as, "/ui/sessions/"+id+"/end", nil)
		has(t, w, 303, nil)
		if s, _ := l.State().Session(id); s.GetEndedBy() != "token:"+as {
			t.Errorf("%s: got ended by %q, want %s", id, s.GetEndedBy(), as)
		}
		has(t, post(l, as, "/ui/sessions/"+id+"/end", nil), 409, []string{"is not active: it has ended"})
	}
	has(t, get(l, "admin", "/ui/sessions"), 200, []string{"ended", "token:viewer"}, "/end\">End</a>")
}

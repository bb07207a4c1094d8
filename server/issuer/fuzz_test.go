package issuer

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func jsonPart(part string) ([]byte, error) { return base64.RawURLEncoding.DecodeString(part) }

// TestTooManyTokenRequests: a client that is limited gets an OAuth error and the time to wait.
func TestTooManyTokenRequests(t *testing.T) {
	l := newLab(t)
	gate := l.newGate()
	i, err := New(Config{}, l, l.keys, gate)
	if err != nil {
		t.Fatal(err)
	}
	m := gate.NewMux()
	i.Routes(m)
	for range 2000 { // more than the limit, even on a slow machine
		r := httptest.NewRequest(http.MethodGet, "/oidc/jwks", nil)
		w := httptest.NewRecorder()
		m.ServeHTTP(w, r)
		if w.Code != http.StatusTooManyRequests {
			continue
		}
		var a struct{ Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || a.Error != "temporarily_unavailable" ||
			w.Header().Get("Retry-After") == "" {
			t.Errorf("got %s (%v), Retry-After %q, want temporarily_unavailable and a time", w.Body, err,
				w.Header().Get("Retry-After"))
		}
		return
	}
	t.Error("got no limited call")
}

// FuzzToken: for any request, the token endpoint answers as the standard requires, and
// issues no token without the client's secret.
func FuzzToken(f *testing.F) {
	l := newLab(f)
	id, secret := l.client("tok-svc", holdfastv1.Role_SERVICE)
	l.turn(l.rotator(0), time.Now())
	l.rate = -1 // the rate limit would refuse nearly all requests without credentials
	gate := l.newGate()
	i, err := New(Config{}, l, l.keys, gate)
	if err != nil {
		f.Fatal(err)
	}
	m := gate.NewMux()
	i.Routes(m)
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(id+":"+secret))
	f.Add("grant_type=client_credentials", basic, "localhost")
	f.Add("grant_type=client_credentials&client_id="+id+"&client_secret="+secret, "", "[::1]:7401")
	f.Add("grant_type=client_credentials&grant_type=x&client_id=%zz", "Basic Og==", "a b")
	f.Add("", "Basic !", "")
	f.Fuzz(func(t *testing.T, body, authorization, host string) {
		r := httptest.NewRequest(http.MethodPost, "/oidc/token", strings.NewReader(body))
		r.Host = host
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		w := httptest.NewRecorder()
		m.ServeHTTP(w, r)
		var a struct {
			Token string `json:"access_token"`
			Error string `json:"error"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatalf("answer %d: got invalid JSON: %s", w.Code, w.Body)
		}
		knows := strings.Contains(body, "client_secret") || strings.HasPrefix(strings.ToLower(authorization), "basic ")
		switch {
		case w.Code == http.StatusOK && (a.Token == "" || !knows):
			t.Errorf("got 200 with token %q for body %q, authorization %q", a.Token, body, authorization)
		case w.Code != http.StatusOK && (a.Error == "" || a.Token != ""):
			t.Errorf("got %d with %+v", w.Code, a)
		case w.Code >= 500:
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// FuzzBasic: the parsed credentials are those that were sent, or an error.
func FuzzBasic(f *testing.F) {
	f.Add("tok-1", "a+b%20c")
	f.Add("a:b", "%")
	f.Fuzz(func(t *testing.T, id, secret string) {
		r := &http.Request{Header: http.Header{}}
		r.SetBasicAuth(id, secret)
		c, err := clientOf(r.Header, nil)
		if err != nil {
			return
		}
		if c.id == "" || c.secret == "" {
			t.Errorf("got an empty client: %+v", c)
		}
		if !strings.ContainsAny(id+secret, "%+:") && (c.id != id || c.secret != secret) {
			t.Errorf("%q %q: got %q %q", id, secret, c.id, c.secret)
		}
	})
}

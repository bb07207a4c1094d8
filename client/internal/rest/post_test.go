package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/client/internal/hedge"
)

// server returns the URL of a server with this handler, and a counter of its requests.
func server(t *testing.T, h http.HandlerFunc) (string, *atomic.Int64) {
	t.Helper()
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, &calls
}

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// torn ends the connection in the middle of an answer.
func torn(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	io.WriteString(w, `{"half":`)
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// silent does not answer.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// peers returns peers whose addresses are tried in order.
func peers(t *testing.T, cfg Config) *Peers {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.order = hedge.NewOrder(len(cfg.URLs), 0)
	t.Cleanup(p.Close)
	return p
}

func TestPostTriesAnotherPeer(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	final := func(a *Answer) bool { return strings.Contains(string(a.Body), "machine_not_found") }
	tests := []struct {
		name  string
		first http.HandlerFunc // nil: no listener
		want  int              // status
		calls int64            // of the second
	}{
		{"ok", status(200, ""), 200, 0},
		{"no listener", nil, 201, 1},
		{"torn", torn, 201, 1},
		{"silent", silent, 201, 1},
		{"500", status(500, `{"message":"Failed to register machine"}`), 201, 1},
		{"final 500", status(500, `{"error_code":"machine_not_found"}`), 500, 0},
		{"503", status(503, ""), 201, 1},
		{"429", status(429, ""), 201, 1},
		{"400", status(400, ""), 400, 0},
		{"401", status(401, ""), 201, 1},
		{"403", status(403, ""), 201, 1},
		{"404", status(404, ""), 201, 1},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, 201, 1},
		{"too long", status(200, strings.Repeat("x", MaxBody+1)), 201, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url := closed.URL
			if tt.first != nil {
				url, _ = server(t, tt.first)
			}
			second, calls := server(t, status(201, ""))
			p := peers(t, Config{URLs: []string{url, second}, Timeout: 2 * time.Second})
			a, err := p.Post(t.Context(), Request{Path: "/x", Final: final})
			if err != nil {
				t.Fatal(err)
			}
			if a.Status != tt.want || calls.Load() != tt.calls {
				t.Errorf("got status %d and %d calls to the second peer, want %d, %d", a.Status, calls.Load(), tt.want, tt.calls)
			}
			// The next request starts at the peer that answered well, or elsewhere.
			if tt.calls == 1 {
				if _, err := p.Post(t.Context(), Request{Path: "/x"}); err != nil || calls.Load() != 2 {
					t.Errorf("next request: got %d calls to the second peer, %v, want 2", calls.Load(), err)
				}
			}
		})
	}
}

func TestPostWithoutHealthyPeer(t *testing.T) {
	a, _ := server(t, status(503, `{"message":"no leader"}`))
	b, _ := server(t, torn)
	got, err := peers(t, Config{URLs: []string{a, b}}).Post(t.Context(), Request{Path: "/x"})
	if err != nil || got.Status != 503 {
		t.Fatalf("error answer and torn connection: got %+v, %v, want the answer", got, err)
	}
	want := fmt.Sprintf("%s/x answered 503: %q", a, "no leader")
	if err := got.Err(); err.Error() != want || Status(err) != 503 {
		t.Errorf("got error %q, status %d, want %q", err, Status(err), want)
	}
	if got, err := peers(t, Config{URLs: []string{b, b}}).Post(t.Context(), Request{Path: "/x"}); err == nil ||
		Status(err) != 0 {
		t.Errorf("two torn connections: got %+v, %v, want an error without a status", got, err)
	}
}

func TestPostSends(t *testing.T) {
	type seen struct{ URI, Body, Auth, Type, Agent, Key string }
	var got seen
	url, _ := server(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = seen{r.RequestURI, string(b), r.Header.Get("Authorization"), r.Header.Get("Content-Type"), r.UserAgent(),
			r.Header.Get("Idempotency-Key")}
	})
	p := peers(t, Config{URLs: []string{url + "/base/"}, Tokens: StaticToken("abc"), UserAgent: "tester/1"})
	if _, err := p.Post(t.Context(), Request{Path: "/ping/", Body: []byte("id")}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(seen{"/base/ping/", "id", "Bearer abc", "", "tester/1", ""}, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if _, err := p.Post(t.Context(), Request{Path: "/pools/a%2Fb", Body: []byte("{}"), json: true}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(seen{"/base/pools/a%2Fb", "{}", "Bearer abc", "application/json", "tester/1", ""},
		got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

// renewing returns "old" until it is refused.
type renewing struct{ token string }

func (r *renewing) Token(context.Context) (string, error) {
	if r.token == "broken" {
		return "", errors.New("no token")
	}
	return r.token, nil
}
func (r *renewing) Refused(token string) bool {
	renewed := token == "old"
	if renewed {
		r.token = "new"
	}
	return renewed
}

func TestPostRenewsTheToken(t *testing.T) {
	url, calls := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer new" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	for _, tt := range []struct {
		token  string
		status int
		calls  int64
	}{{"new", 200, 1}, {"old", 200, 2}, {"foreign", 401, 1}} {
		calls.Store(0)
		a, err := peers(t, Config{URLs: []string{url}, Tokens: &renewing{tt.token}}).Post(t.Context(), Request{Path: "/x"})
		if err != nil || a.Status != tt.status || calls.Load() != tt.calls {
			t.Errorf("with token %q: got %+v, %v after %d calls, want %d after %d", tt.token, a, err, calls.Load(), tt.status,
				tt.calls)
		}
	}
	if _, err := peers(t, Config{URLs: []string{url}, Tokens: &renewing{"broken"}}).Post(t.Context(),
		Request{Path: "/x"}); err == nil || !strings.Contains(err.Error(), "no token") {
		t.Errorf("without a token: got %v", err)
	}
}

// If a server closes idle connections, the request is sent again without a failure.
func TestPostSurvivesClosedIdleConnection(t *testing.T) {
	s := httptest.NewServer(status(200, ""))
	defer s.Close()
	p := peers(t, Config{URLs: []string{s.URL}})
	for range 20 {
		if _, err := p.Post(t.Context(), Request{Path: "/x", Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		s.CloseClientConnections()
	}
}

// A request that creates something each time is not sent again after its connection ended before
// the answer, because it may have been applied.
func TestPostSendsCreatingRequestOnce(t *testing.T) {
	var taken atomic.Int32
	url, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/register" {
			taken.Add(1)
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = c.Close()
			}
		}
	})
	p := peers(t, Config{URLs: []string{url}})
	for range 3 {
		if _, err := p.Post(t.Context(), Request{Path: "/warm"}); err != nil { // the connection is used again
			t.Fatal(err)
		}
		before := taken.Load()
		if _, err := p.Post(t.Context(), Request{Path: "/register", Body: []byte("{}"), OneByOne: true}); err == nil {
			t.Error("got an answer, want an error")
		}
		if got := taken.Load() - before; got != 1 {
			t.Errorf("got %d requests, want 1", got)
		}
	}
}

func TestPostSharesAShortDeadline(t *testing.T) {
	a, _ := server(t, silent)
	b, _ := server(t, status(200, ""))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if got, err := peers(t, Config{URLs: []string{a, b}}).Post(ctx, Request{Path: "/x"}); err != nil || got.Status != 200 {
		t.Errorf("Post: got %+v, %v, want the answer of the second peer", got, err)
	}
}

func TestPostEndsWithItsContext(t *testing.T) {
	a, _ := server(t, silent)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if got, err := peers(t, Config{URLs: []string{a, a, a}}).Post(ctx,
		Request{Path: "/x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Post: got %+v, %v, want canceled", got, err)
	}
}

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "5": 5 * time.Second, "-1": 0, "3600": maxRetryAfter, "Wed, 21 Oct 2026 07:28:00 GMT": 0,
		"999999999999999999999": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {header}}); got != want {
			t.Errorf("Retry-After %q: got %v, want %v", header, got, want)
		}
	}
}

func FuzzMessage(f *testing.F) {
	for _, s := range []string{`{"message":"x"}`, `{"error":{"message":"y"}}`, `{"error":"z"}`, `null`, `[]`, "\xff",
		strings.Repeat("é", 150)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a := Answer{URL: "http://x", Status: 500, Body: body}
		if got := a.message(); len(got) > maxMessage+len("…") {
			t.Errorf("got a message of %d bytes", len(got))
		}
	})
}

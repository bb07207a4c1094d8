package auth

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/peer"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// site serves a mux on a real socket.
func site(t *testing.T, f *fakeRecords, cfg Config, change func(*Gate)) (*httptest.Server, *Mux) {
	t.Helper()
	m := routes(t, f, cfg, change)
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	return srv, m
}

// routes returns the mux of site.
func routes(t *testing.T, f *fakeRecords, cfg Config, change func(*Gate)) *Mux {
	t.Helper()
	g := newGate(t, f, cfg)
	if change != nil {
		change(g)
	}
	m := g.NewMux()
	m.HandleFunc("POST /echo", Least(holdfastv1.Role_OPERATOR),
		func(w http.ResponseWriter, _ *http.Request, status int, err *Error) {
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"message":%q}`, err.Reason)
		}, func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			if TooLarge(err) {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
				return
			}
			if err != nil {
				w.WriteHeader(http.StatusRequestTimeout)
				return
			}
			_, _ = fmt.Fprintf(w, "%s sent %d bytes", From(r.Context()).GetPrincipal(), len(b))
		})
	m.HandleFunc("GET /open", Public(), nil, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%v", From(r.Context()))
	})
	m.HandleFunc("GET /plain", Least(holdfastv1.Role_VIEWER), nil, func(http.ResponseWriter, *http.Request) {})
	return m
}

func TestMux(t *testing.T) {
	f := &fakeRecords{}
	srv, m := site(t, f, Config{}, nil)
	operator := f.issue(&holdfastv1.Token{TokenId: "t1", Name: "op", Role: holdfastv1.Role_OPERATOR})
	viewer := f.issue(&holdfastv1.Token{TokenId: "t2", Name: "v", Role: holdfastv1.Role_VIEWER})
	revoked := f.issue(&holdfastv1.Token{TokenId: "t3", Name: "r", Role: holdfastv1.Role_ADMIN,
		RevokedAt: past(time.Hour)})
	for _, tt := range []struct {
		name, method, path, token, body string
		status                          int
		answer                          string
	}{
		{"let in", "POST", "/echo", "Bearer " + operator, "hello", 200, "token:op sent 5 bytes"},
		{"no scheme", "POST", "/echo", operator, "", 200, "token:op sent 0 bytes"},
		{"no credentials", "POST", "/echo", "", "", 401, `{"message":"NO_CREDENTIALS"}`},
		{"wrong role", "POST", "/echo", viewer, "", 403, `{"message":"ROLE"}`},
		{"revoked", "POST", "/echo", revoked, "", 401, `{"message":"TOKEN_REVOKED"}`},
		{"unknown", "POST", "/echo", "nonsense", "", 401, `{"message":"TOKEN_UNKNOWN"}`},
		{"too large", "POST", "/echo", operator, strings.Repeat("x", MaxBody+1), 413, ""},
		{"just not too large", "POST", "/echo", operator, strings.Repeat("x", MaxBody), 200,
			fmt.Sprintf("token:op sent %d bytes", MaxBody)},
		{"public", "GET", "/open", revoked, "", 200, "<nil>"},
		{"own error format", "GET", "/plain", "", "", 401,
			"no credentials: send `Authorization: Bearer` and a token (`holdfast token create`), or use a client certificate\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tt.method, srv.URL+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if tt.token != "" {
				req.Header.Set("Authorization", tt.token)
			}
			// A header with a client's own claim about its identity is ignored.
			req.Header.Set("Holdfast-Identity-Bin", "CgdhbnlvbmU=")
			req.Header.Set("X-Forwarded-For", "10.9.9.9")
			resp, err := srv.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != tt.status || tt.answer != "" && string(b) != tt.answer {
				t.Errorf("got %d %q, %v, want %d %q", resp.StatusCode, b, err, tt.status, tt.answer)
			}
			if (resp.StatusCode == 401) != (resp.Header.Get("WWW-Authenticate") != "") {
				t.Errorf("got WWW-Authenticate %q", resp.Header.Get("WWW-Authenticate"))
			}
		})
	}
	if got := m.Routes(); len(got) != 3 || got[0].Pattern != "POST /echo" || got[0].Rule.Needs() != "operator" {
		t.Errorf("got %v", got)
	}
}

// TestRateLimitedRoute checks that 429 has a Retry-After header, and that other callers
// are served.
func TestRateLimitedRoute(t *testing.T) {
	f := &fakeRecords{}
	srv, _ := site(t, f, Config{RatePerSecond: 5}, nil)
	get := func(token string) (status int, retryAfter string) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL+"/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", token)
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	greedy := f.issue(&holdfastv1.Token{TokenId: "t1", Name: "greedy", Role: holdfastv1.Role_VIEWER})
	modest := f.issue(&holdfastv1.Token{TokenId: "t2", Name: "modest", Role: holdfastv1.Role_VIEWER})
	codes := map[int]int{}
	var last int
	var retryAfter string
	for range 40 {
		last, retryAfter = get(greedy)
		codes[last]++
	}
	if codes[200] < 10 || codes[429] < 15 || last != 429 || retryAfter == "" {
		t.Errorf("got %v, Retry-After %q", codes, retryAfter)
	}
	if status, _ := get(modest); status != 200 {
		t.Errorf("other caller: got %d", status)
	}
}

// TestSlowBody checks that a slow body ends at the time limit.
func TestSlowBody(t *testing.T) {
	f := &fakeRecords{}
	srv, _ := site(t, f, Config{}, func(g *Gate) { g.body = 100 * time.Millisecond })
	token := f.issue(&holdfastv1.Token{TokenId: "t1", Name: "op", Role: holdfastv1.Role_OPERATOR})
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c,
		"POST /echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\nab", token); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("got %d", resp.StatusCode)
	}
}

// TestOtherSites checks that a page of another site cannot change anything through a
// browser, with a client certificate or on a peer without authentication. Requests with a
// token, and those of programs, are accepted.
func TestOtherSites(t *testing.T) {
	f := &fakeRecords{}
	operator := "Bearer " + f.issue(&holdfastv1.Token{TokenId: "t1", Name: "op", Role: holdfastv1.Role_OPERATOR})
	open, _ := site(t, f, Config{Insecure: true}, nil)
	secure, _ := site(t, f, Config{}, nil)
	for _, tt := range []struct {
		name, method, path, token string
		srv                       *httptest.Server
		header                    http.Header
		status                    int
		answer                    string
	}{
		{"a program", "POST", "/echo", "", open, nil, 200, ""},
		{"a page of ours", "POST", "/echo", "", open, http.Header{"Sec-Fetch-Site": {"same-origin"},
			"Origin": {"https://elsewhere"}}, 200, ""},
		{"a page of another site", "POST", "/echo", "", open, http.Header{"Sec-Fetch-Site": {"cross-site"},
			"Origin": {"https://evil"}}, 403, `{"message":"CROSS_ORIGIN"}`},
		{"of another site on this host", "POST", "/echo", "", open, http.Header{"Sec-Fetch-Site": {"same-site"}}, 403,
			`{"message":"CROSS_ORIGIN"}`},
		{"in an old browser", "POST", "/echo", "", open, http.Header{"Origin": {"https://evil"}}, 403,
			`{"message":"CROSS_ORIGIN"}`},
		{"null origin", "POST", "/echo", "", open, http.Header{"Origin": {"null"}}, 403,
			`{"message":"CROSS_ORIGIN"}`},
		{"a link", "GET", "/plain", "", open, http.Header{"Sec-Fetch-Site": {"cross-site"},
			"Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}, 200, ""},
		{"with a token", "POST", "/echo", operator, secure, http.Header{"Sec-Fetch-Site": {"cross-site"},
			"Origin": {"https://tool"}}, 200, ""},
		{"no credentials, other site", "POST", "/echo", "", secure, http.Header{"Sec-Fetch-Site": {"cross-site"}}, 401,
			`{"message":"NO_CREDENTIALS"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tt.method, tt.srv.URL+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tt.header != nil {
				req.Header = tt.header
			}
			if tt.token != "" {
				req.Header.Set("Authorization", tt.token)
			}
			resp, err := tt.srv.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != tt.status || tt.answer != "" && string(b) != tt.answer {
				t.Errorf("got %d %q, %v, want %d %q", resp.StatusCode, b, err, tt.status, tt.answer)
			}
		})
	}
}

// TestPublicLimits checks the limits of calls without credentials, per address and in
// total. Health checks, and peers without authentication, have none.
func TestPublicLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // without the bubble's clock a slow machine refills the buckets meanwhile
		l := newLimits(defaultRate)
		take := func(source string) (n int) {
			for l.public(source) == nil {
				n++
			}
			return n
		}
		if n := take("10.0.0.66"); n != publicBurst {
			t.Errorf("one address: got %d calls at once, want %d", n, publicBurst)
		}
		if err := l.public("10.0.0.5"); err != nil {
			t.Errorf("other address: %v", err)
		}
		take("2001:db8::1")
		if err := l.public("2001:db8::2"); err == nil {
			t.Error("an address of the same /64 has a limit of its own")
		}
		for i := range publicAllMax / publicBurst {
			take(fmt.Sprintf("10.1.0.%d", i))
		}
		if err := l.public("10.2.0.1"); err == nil || err.Reason != ReasonRateLimit {
			t.Errorf("total: got %v, want %s", err, ReasonRateLimit)
		}
		time.Sleep(time.Second) // sleep: the clock of the bubble
		if n := take("10.0.0.66"); n != publicRate {
			t.Errorf("one address after a second: got %d calls at once, want %g", n, publicRate)
		}
	})
}

// TestLimitedRoutes checks which routes have the limit of public calls.
func TestLimitedRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRecords{}
		secure := routes(t, f, Config{}, nil)
		secure.HandleFunc("GET /health", Health(), nil, func(http.ResponseWriter, *http.Request) {})
		secure.HandleFunc("GET /file", Download(), nil, func(http.ResponseWriter, *http.Request) {})
		insecure := routes(t, f, Config{Insecure: true}, nil)
		for _, tt := range []struct {
			name, path string
			mux        *Mux
			limited    bool
		}{
			{"health", "/health", secure, false},
			{"download", "/file", secure, false},
			{"public, without authentication", "/open", insecure, false},
			{"public", "/open", secure, true},
			{"health, when public calls are refused", "/health", secure, false},
		} {
			for range publicBurst {
				tt.mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, tt.path, nil))
			}
			w := httptest.NewRecorder()
			tt.mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, tt.path, nil))
			limited := w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") != ""
			if limited != tt.limited {
				t.Errorf("%s: got status %d, limited %t, want %t", tt.name, w.Code, limited, tt.limited)
			}
		}
	})
}

// TestPublicCallsAreLimited checks the same over gRPC. Calls of this process's HTTP
// routes are already counted.
func TestPublicCallsAreLimited(t *testing.T) {
	synctest.Test(t, testPublicCalls)
}

func testPublicCalls(t *testing.T) {
	g := newGate(t, &fakeRecords{}, Config{})
	from := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 66), Port: 1}})
	for _, tt := range []struct {
		name, method string
		ctx          context.Context
		limited      bool
	}{
		{"an unknown client", "/holdfast.v1.InstallService/BootMachine", from, true},
		{"a health check", "/grpc.health.v1.Health/Check", from, false},
		{"this process", "/holdfast.v1.InstallService/BootMachine", t.Context(), false},
	} {
		limited := false
		for range publicBurst + 100 {
			if _, err := g.Enter(tt.ctx, tt.method); err != nil {
				limited = true
			}
		}
		if limited != tt.limited {
			t.Errorf("%s: got limited %t, want %t", tt.name, limited, tt.limited)
		}
	}
}

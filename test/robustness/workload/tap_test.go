package workload

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// wired returns a tap, and the URL of a server that always answers the same.
func wired(t *testing.T, code int, answer string) (*tap, string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	w := newTap(Target{URLs: []string{"http://127.0.0.1:1", s.URL}}, &Recorder{base: time.Now()})
	t.Cleanup(w.base.(*http.Transport).CloseIdleConnections)
	return w, s.URL
}

func (t *tap) ask(ctx context.Context, url, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// TestTapReads covers the three APIs, which have ids in different places and different refusals.
func TestTapReads(t *testing.T) {
	const services = "/api/v1/management/discovery"
	for name, tt := range map[string]struct {
		path, body string
		code       int
		answer     string
		want       Request
	}{
		"machine": {"/api/v1/machine/register", `{"machine_id":"m"}`, 200, `{}`,
			Request{Kind: Register, ID: "m", Outcome: OK}},
		"keepalive": {"/api/v1/machine/keepalive/", `{"machine_id":"m"}`, 200, `{}`,
			Request{Kind: Heartbeat, ID: "m", Outcome: OK}},
		"expired": {"/api/v1/machine/keepalive", `{"machine_id":"m"}`, 500,
			`{"error_code":"machine_not_found"}`, Request{Kind: Heartbeat, ID: "m", Outcome: Refused}},
		"failed": {"/api/v1/machine/keepalive", `{"machine_id":"m"}`, 500, `{"message":"no"}`,
			Request{Kind: Heartbeat, ID: "m", Outcome: Unknown}},
		"no leader": {"/api/v1/machine/register", `{"machine_id":"m"}`, 503, `{}`,
			Request{Kind: Register, ID: "m", Outcome: Unknown}},
		"pool": {"/v2/pools/register", `{"pool_id":"p"}`, 200, `{}`,
			Request{Kind: Register, ID: "p", Outcome: OK}},
		"heartbeat": {"/v2/pools/p/heartbeat", `{"pool_id":"p"}`, 404, `{"error":"pool_not_found"}`,
			Request{Kind: Heartbeat, ID: "p", Outcome: Refused}},
		"pool deregisters": {"/v2/pools/p/deregister", `{"pool_id":"p"}`, 200, `{}`,
			Request{Kind: Deregister, ID: "p", Outcome: OK}},
		"new service": {services + "/register", `{"serviceName":"s"}`, 200, `{"data":{"id":"x"}}`,
			Request{Kind: Register, ID: "x", New: true, Outcome: OK}},
		"known service": {services + "/register", `{"id":"x"}`, 503, ``,
			Request{Kind: Register, ID: "x", Outcome: Unknown}},
		"ping":                {services + "/ping/", `x`, 200, ``, Request{Kind: Heartbeat, ID: "x", Outcome: OK}},
		"report":              {services + "/update/x", `{"healthy":true}`, 200, ``, Request{Kind: Heartbeat, ID: "x", Outcome: OK}},
		"service deregisters": {services + "/deregister", `{"id":"x"}`, 200, ``, Request{Kind: Deregister, ID: "x", Outcome: OK}},
		"token":               {"/oidc/token", `grant_type=client_credentials`, 200, `{}`, Request{Kind: Token, Outcome: OK}},
		"irrelevant request":  {"/oidc/.well-known/openid-configuration", ``, 200, `{}`, Request{}},
	} {
		t.Run(name, func(t *testing.T) {
			w, url := wired(t, tt.code, tt.answer)
			code, answer, err := w.ask(t.Context(), url+tt.path, tt.body)
			if code != tt.code || answer != tt.answer || err != nil {
				t.Errorf("got %d %q, %v: want the answer of the server", code, answer, err)
			}
			var want []Request
			if tt.want.Kind != "" {
				tt.want.Peer, tt.want.Status = 1, tt.code
				want = []Request{tt.want}
			}
			if diff := cmp.Diff(want, w.seen(), cmpopts.IgnoreFields(Request{}, "Call", "Return", "Why")); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTapCut checks that a killed process sends nothing more and that the outcome of its request in
// flight is unknown. A process that cannot connect has sent nothing.
func TestTapCut(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(asked) // a second request would panic
		<-release
	}))
	defer s.Close()
	defer close(release)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String()
	_ = l.Close()
	w := newTap(Target{URLs: []string{s.URL, closed}}, &Recorder{base: time.Now()})
	cut := w.begin()
	if _, _, err := w.ask(t.Context(), closed+"/api/v1/machine/keepalive", `{}`); err == nil {
		t.Error("request to a closed port: got an answer")
	}
	done := make(chan error)
	go func() {
		_, _, err := w.ask(context.Background(), s.URL+"/api/v1/machine/keepalive", `{}`)
		done <- err
	}()
	<-asked
	cut()
	if err := <-done; err == nil {
		t.Error("request of a killed process: got an answer")
	}
	if code, _, err := w.ask(t.Context(), s.URL+"/api/v1/machine/keepalive", `{}`); code != http.StatusGone || err != nil {
		t.Errorf("next incarnation: got %d, %v", code, err)
	}
	var got []Outcome
	for _, request := range w.seen() {
		got = append(got, request.Outcome)
	}
	if diff := cmp.Diff([]Outcome{NotApplied, Unknown}, got); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// TestTapFreeze checks that a frozen process receives answers only after it continues.
func TestTapFreeze(t *testing.T) {
	w, url := wired(t, 200, `{}`)
	w.begin()
	thaw := w.freeze()
	short, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, _, err := w.ask(short, url+"/api/v1/machine/keepalive", `{}`); err == nil {
		t.Error("frozen process: got an answer")
	}
	thaw()
	if code, _, err := w.ask(t.Context(), url+"/api/v1/machine/keepalive", `{}`); code != 200 || err != nil {
		t.Errorf("after the freeze: got %d, %v", code, err)
	}
}

func TestWithin(t *testing.T) {
	spans := []Span{{10, 20}, {15, 25}, {40, 50}}
	for _, tt := range []struct{ from, to, after, want time.Duration }{
		{0, 5, 0, 0}, {0, 100, 0, 25}, {12, 18, 0, 6}, {22, 45, 0, 8}, {0, 100, 5, 35}, {0, 100, 20, 60}, {60, 70, 0, 0},
	} {
		if got := Within(spans, tt.from, tt.to, tt.after); got != tt.want {
			t.Errorf("within [%d, %d] and %d after: got %d, want %d", tt.from, tt.to, tt.after, got, tt.want)
		}
	}
}

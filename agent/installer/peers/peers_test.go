package peers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answering returns the URL of a server that answers with these statuses in turn, repeating the
// last one, and a function that lists its requests.
func answering(t *testing.T, statuses ...int) (url string, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		all = append(all, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		status := statuses[min(len(all), len(statuses))-1]
		mu.Unlock()
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"machine_id":"m-1","servers":["http://127.0.0.1:9/","nonsense"]}`)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []string { mu.Lock(); defer mu.Unlock(); return append([]string(nil), all...) }
}

func client(t *testing.T, url string) *Client {
	t.Helper()
	c, err := New(Config{URL: url, Token: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOrderIsRetried(t *testing.T) {
	url, asked := answering(t, http.StatusServiceUnavailable, http.StatusOK)
	c := client(t, url)
	o, err := c.Order(t.Context())
	if err != nil || o.MachineID != "m-1" {
		t.Fatalf("got %+v, %v", o, err)
	}
	if got := len(asked()); got != 2 {
		t.Errorf("got %d requests, want 2", got)
	}
	if diff := cmp.Diff([]string{url, "http://127.0.0.1:9"}, c.Servers()); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		status int
		over   bool
	}{
		{http.StatusUnauthorized, true}, {http.StatusForbidden, true}, {http.StatusGone,
			true}, {http.StatusUnprocessableEntity, false}, {http.StatusBadRequest, false},
	}
	for _, tt := range tests {
		url, asked := answering(t, tt.status)
		err := client(t, url).Report(t.Context(), "", Report{Status: Started})
		if err == nil || errors.Is(err, ErrOver) != tt.over || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%d: got %v, want the end of the session: %v", tt.status, err, tt.over)
		}
		if got := len(asked()); got != 1 {
			t.Errorf("%d: got %d requests, want 1", tt.status, got)
		}
	}
}

// The peer that answered is tried first from then on.
func TestReportGoesToNextPeer(t *testing.T) {
	bad, _ := answering(t, http.StatusBadGateway)
	good, asked := answering(t, http.StatusOK)
	c := client(t, bad)
	c.Know([]string{good})
	r := Report{Status: Progress, Progress: 3}
	if err := c.ReportOnce(t.Context(), "http://elsewhere/api/v2/report", r); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{good, bad}, c.Servers()); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`POST /api/v2/report {"status":"progress","progress":3}`}, asked()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.ReportOnce(ctx, "", Report{Status: Progress}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: got %v", err)
	}
}

// A refused part is sent again, from the same byte.
func TestLog(t *testing.T) {
	url, asked := answering(t, http.StatusServiceUnavailable, http.StatusOK)
	c, l := client(t, url), &Log{}
	for _, text := range []string{"one\n", "two\n"} {
		if n, err := l.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("Write: got %d, %v", n, err)
		}
	}
	if err := l.Flush(t.Context(), c, ""); err == nil {
		t.Error("refused part: got no error")
	}
	_, _ = l.Write([]byte("three"))
	if err := l.Flush(t.Context(), c, ""); err != nil {
		t.Fatal(err)
	}
	_, _ = l.Write([]byte("!"))
	if err := l.Flush(t.Context(), c, ""); err != nil {
		t.Fatal(err)
	}
	want := []string{"POST /api/v1/install/log?offset=0 one\ntwo", "POST /api/v1/install/log?offset=0 one\ntwo\nthree",
		"POST /api/v1/install/log?offset=13 !"}
	if diff := cmp.Diff(want, asked()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, cfg := range []Config{{Token: "t"}, {URL: "peer:7401", Token: "t"}, {URL: "ftp://peer", Token: "t"},
		{URL: "http://peer"}} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "kernel command line") {
			t.Errorf("%+v: got %v, want the missing kernel parameter", cfg, err)
		}
	}
}

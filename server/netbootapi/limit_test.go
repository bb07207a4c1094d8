package netbootapi_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/inproc"
	"github.com/holdfast-metal/holdfast/server/netbootapi"
)

// TestLimitedMachineRetries checks that a rate-limited machine gets a script that waits and
// retries, because firmware does not retry after a 429.
func TestLimitedMachineRetries(t *testing.T) {
	gate, err := auth.New(auth.Config{PeerID: "p1"},
		auth.Deps{Report: func(context.Context, *internalv1.RecordDenials) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	m := gate.NewMux()
	netbootapi.Register(m, inproc.New(nil, nil), netbootapi.Config{}, slog.New(slog.DiscardHandler))
	srv := httptest.NewServer(m)
	defer srv.Close()
	get := func(path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	limited := 0
	for range 300 {
		code, script := get(boot)
		if code != 200 || !strings.HasPrefix(script, "#!ipxe\n") ||
			!strings.Contains(script, "/api/v1/boot?mac=52%3A54%3A00%3A12%3A34%3A56&arch=${buildarch} || goto again") {
			t.Fatalf("got %d\n%s\nwant a script that retries", code, script)
		}
		if strings.Contains(script, "without credentials") {
			limited++
		}
	}
	if limited == 0 {
		t.Error("300 requests at once: got none limited")
	}
	if code, script := get("/api/v1/boot"); code != 200 || !strings.Contains(script, "mac=${mac}") {
		t.Errorf("without a MAC address: got %d\n%s", code, script)
	}
	code := 0
	for range 300 { // the limit permits new requests after a while
		if code, _ = get(work); code == http.StatusTooManyRequests {
			break
		}
	}
	if code != http.StatusTooManyRequests {
		t.Errorf("work order: got %d, want 429, because the installer retries", code)
	}
}

package ui_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
)

// listen opens a stream and returns its lines.
func listen(t *testing.T, l *apitest.Lab, path, as, last string) <-chan string {
	t.Helper()
	srv := httptest.NewServer(l.Handler)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+l.Secret(as))
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(r) //nolint:bodyclose // by the cleanup below, when the reader has ended
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %d, %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = resp.Body.Close()
		for range lines { // until the reader has ended
			continue
		}
		srv.CloseClientConnections()
		srv.Close()
	})
	return lines
}

// until reads lines until one has a text, and returns the id of the event before it.
func until(t *testing.T, lines <-chan string, text string) (id string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("wait for %q: the stream has ended", text)
			}
			if v, ok := strings.CutPrefix(line, "id: "); ok {
				id = v
			}
			if strings.Contains(line, text) {
				return id
			}
		case <-deadline:
			t.Fatalf("wait for %q: timed out", text)
		}
	}
}

// TestEvents: an open page receives each transition. One that reconnects with the last id
// receives the missed ones. A revoked token ends the stream.
func TestEvents(t *testing.T) {
	l := lab(t)
	lines := listen(t, l, "/ui/events", "viewer", "")
	until(t, lines, "event: hello")
	id := until(t, lines, "event: mark")
	l.Do(&internalv1.CancelRun{RunId: "run-1", Reason: "enough"})
	if next := until(t, lines, `data: {"run":"run-1","machine":"m-1"}`); next == id || next == "" {
		t.Errorf("event: got id %q after %q", next, id)
	}
	again := listen(t, l, "/ui/events", "viewer", id)
	until(t, again, `data: {"run":"run-1","machine":"m-1"}`)

	l.Revoke("viewer")
	deadline := time.After(15 * time.Second)
	for open := true; open; {
		select {
		case _, open = <-lines:
		case <-deadline:
			t.Fatal("revoked token: got an open stream")
		}
	}
}

// TestLogFollows: the log continues at the offset where the page ends, byte for byte and
// without repetition.
func TestLogFollows(t *testing.T) {
	l := lab(t)
	lines := listen(t, l, "/ui/runs/run-1/log", "viewer", "")
	id := until(t, lines, `hello \u003cscript`)
	rest := listen(t, l, "/ui/runs/run-1/log?offset="+id, "viewer", "")
	appendLog(l, "and more\n")
	until(t, rest, `"text":"and more\n"`)
	until(t, lines, `"text":"and more\n"`)
	if w := get(l, "viewer", "/ui/runs/run-1/log?as=text"); !strings.HasSuffix(w.Body.String(), "and more\n") ||
		!strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("as text: got %s, %q", w.Header().Get("Content-Type"), w.Body)
	}
}

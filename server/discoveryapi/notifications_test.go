package discoveryapi_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// browser is a ResponseWriter that records a stream. It supports deadlines like a
// connection.
type browser struct {
	header http.Header
	cancel context.CancelFunc
	gone   chan struct{} // closed when the handler has returned

	mu       sync.Mutex
	status   int
	text     strings.Builder
	stuck    bool // writes block
	deadline time.Time
}

func (b *browser) Header() http.Header { return b.header }
func (b *browser) Flush()              {}

func (b *browser) WriteHeader(status int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status = status
}

func (b *browser) SetWriteDeadline(t time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deadline = t
	return nil
}

func (b *browser) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stuck {
		if b.deadline.IsZero() {
			select {} // as on a socket without a deadline
		}
		time.Sleep(time.Until(b.deadline)) // sleep: fake clock
		return 0, os.ErrDeadlineExceeded
	}
	return b.text.Write(p)
}

// stick makes all further writes block.
func (b *browser) stick() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stuck = true
}

// read returns the text since the last call, and the status.
func (b *browser) read() (string, int) {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.text.String()
	b.text.Reset()
	return s, b.status
}

func (b *browser) want(t *testing.T, what, text string) {
	t.Helper()
	got, status := b.read()
	if diff := cmp.Diff(text, got); diff != "" || status != http.StatusOK {
		t.Errorf("%s: status %d (-want +got):\n%s", what, status, diff)
	}
}

func (b *browser) ended() bool {
	synctest.Wait()
	select {
	case <-b.gone:
		return true
	default:
		return false
	}
}

// open opens the stream, optionally after an event.
func open(l *apitest.Lab, token, last string) *browser {
	ctx, cancel := context.WithCancel(l.Context())
	b := &browser{header: http.Header{}, cancel: cancel, gone: make(chan struct{})}
	req := httptest.NewRequestWithContext(ctx, "GET", "http://localhost"+notifications, nil)
	req.Header.Set("Authorization", "Bearer "+l.Secret(token))
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	go func() {
		defer close(b.gone)
		l.Handler.ServeHTTP(b, req)
	}()
	return b
}

// named returns a registration.
func named(id int, name string) (serviceID, body string) {
	serviceID = fmt.Sprintf("00000000-0000-4000-8000-%012d", id)
	return serviceID, `{"id":"` + serviceID + `","serviceName":"` + name +
		`","host":"10.0.0.1","port":9090,"serviceType":"tool-invoker"}`
}

func post(t *testing.T, l *apitest.Lab, path, body string) {
	t.Helper()
	if a := l.Send(apitest.Call{Token: "service", Method: "POST", Path: path, Body: body}); a.Status != 200 {
		t.Fatalf("%s %s: %d %s", path, body, a.Status, a.Body)
	}
}

// sent returns an event as it is sent.
func sent(cursor int, event, id, name, activity string) string {
	text := ""
	if cursor != 0 {
		text = fmt.Sprintf("id: %d\n", cursor)
	}
	return text + "event: " + event + "\ndata: " + `{"event":"` + event + `","target":{"id":"` + id +
		`","serviceName":"` + name + `","host":"10.0.0.1","port":9090,"serviceType":"tool-invoker",` +
		`"serviceSubType":null,"languageName":null,"languageType":null,"languageSubType":null},"activity":{"id":"` + id + `",` + activity + "}}\n\n"
}

const alive = ": alive\n\n"

// Each change arrives once, in order and with an id. A client that reconnects with the last
// id misses none.
func TestNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lab(t)
		one, bodyOne := named(1, "one")
		two, bodyTwo := named(2, "two")
		state := func(second, more string) string {
			return `"lastSeen":"2026-01-29T15:10:` + second + `Z","active":true,"states":[` + more + `]`
		}
		first := open(l, "viewer", "")
		pass(200 * time.Millisecond)
		first.want(t, "no service yet", alive)
		post(t, l, register, bodyOne)
		pass(time.Second)
		first.want(t, "first service", sent(1, "register", one, "one", state("01", "")))
		post(t, l, register, bodyTwo)
		pass(time.Second)
		first.want(t, "second service", sent(2, "register", two, "two", state("02", "")))

		second := open(l, "viewer", "")
		second.want(t, "the current state has one id, at its end",
			sent(0, "register", one, "one", state("01", ""))+
				sent(2, "register", two, "two", state("02", "")))
		first.cancel()
		second.cancel()
		if !first.ended() || !second.ended() {
			t.Fatal("wait for the end of the handlers: timed out")
		}
		post(t, l, base+"/update/"+one, `{"timestamp":"2025-01-15T10:30:00Z","healthy":false,"reason":"no database"}`)
		post(t, l, deregister, bodyTwo)
		again := open(l, "viewer", "2")
		again.want(t, "what was missed",
			sent(3, "update", one, "one",
				state("03", `{"timestamp":"2025-01-15T10:30:00Z","healthy":false,"reason":"no database"}`))+
				sent(4, "deregister", two, "two", `"lastSeen":"2026-01-29T15:10:02Z","active":false,"states":[`+
					`{"timestamp":"2026-01-29T15:10:04Z","healthy":false,"reason":"deregistered"}]`))
		pass(10 * time.Second)
		again.want(t, "the first heartbeat", alive)
		for range 4 {
			pass(15 * time.Second)
			again.want(t, "a heartbeat", alive)
		}
		l.Server.Drain()
		if !again.ended() {
			t.Error("shutdown of the peer: got an open stream")
		}
		if got := again.header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("got content type %q", got)
		}
	})
}

// pass advances the time of the bubble.
func pass(d time.Duration) {
	time.Sleep(d) // sleep: fake clock
}

// A caller that loses its access receives nothing more.
func TestNotificationsEndWithTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lab(t)
		b := open(l, "viewer", "")
		pass(time.Second)
		b.want(t, "no service yet", alive)
		l.Revoke("viewer")
		_, body := named(1, "one")
		post(t, l, register, body)
		pass(time.Second)
		b.want(t, "after the token was revoked", "")
		if !b.ended() {
			t.Error("got an open stream")
		}
		idle := open(l, "operator", "1")
		pass(time.Second)
		idle.want(t, "no news", alive)
		l.Revoke("operator")
		pass(15 * time.Second)
		if idle.want(t, "after the token was revoked", ""); !idle.ended() {
			t.Error("got an open quiet stream")
		}
	})
}

// A client that stops reading does not block the peer forever.
func TestNotificationsToStuckClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lab(t)
		b := open(l, "viewer", "")
		b.stick()
		pass(29 * time.Second)
		if b.ended() {
			t.Error("got a stream that ended at once")
		}
		pass(2 * time.Second)
		if !b.ended() {
			t.Error("got an open stream")
		}
	})
}

func TestNotificationsFromID(t *testing.T) {
	for last, want := range map[string]struct {
		status int
		body   string
	}{
		"x":                    {400, wrong(`Last-Event-ID is \"x\": want the id of an event, or none`)},
		"-1":                   {400, wrong(`Last-Event-ID is \"-1\": want the id of an event, or none`)},
		"99":                   {410, wrong(`cursor 99 is not kept: events 0 to 0 are; watch again without a cursor to start from the current state`)},
		"18446744073709551616": {400, wrong(`Last-Event-ID is \"18446744073709551616\": want the id of an event, or none`)},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := open(lab(t), "viewer", last)
			if got, status := b.read(); !b.ended() || status != want.status || got != want.body+"\n" {
				t.Errorf("from %q: got %d %s, want %d %s", last, status, got, want.status, want.body)
			}
		})
	}
}

// On a real connection, events arrive at once, and a closed connection is noticed.
func TestNotificationsOverTheNetwork(t *testing.T) {
	l := lab(t)
	srv := httptest.NewServer(l.Handler)
	defer srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", srv.URL+notifications+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", l.Secret("viewer"))
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" ||
		resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("got %s, %v", resp.Status, resp.Header)
	}
	service, body := named(1, "one")
	post(t, l, register, body)
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			if !strings.Contains(lines.Text(), service) {
				t.Errorf("got %s, want %s", lines.Text(), service)
			}
			return // srv.Close waits for the handler; goleak checks the rest
		}
	}
	t.Error("got a stream that ended")
}

package simulate

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/bench/load"
)

// TestMemberLifecycle checks that a member registers, sends a heartbeat at once and then at the
// server's interval, uses another peer after a failure, waits when all have failed, and registers
// again when it was forgotten.
func TestMemberLifecycle(t *testing.T) {
	script := []struct {
		status     int
		answer     string
		path       string
		peer       int
		atLeast    time.Duration // until the next call
		atMost     time.Duration
		registered bool // registered after the call
	}{
		{200, `{}`, "register", 0, 0, 3 * time.Second, true},
		{200, `{"next_keepalive_ms":40000}`, "keepalive", 0, 36 * time.Second, 40 * time.Second, true},
		{503, `{}`, "keepalive", 0, 0, 3 * time.Second, true},
		{404, `{"error_code":"something_else"}`, "keepalive", 1, 500 * time.Millisecond, 4 * time.Second, true},
		{500, `{"error_code":"machine_not_found"}`, "keepalive", 0, 0, 3 * time.Second, false},
		{200, `{}`, "register", 0, 0, 3 * time.Second, true},
		{200, `{}`, "keepalive", 0, 54 * time.Second, time.Minute, true},
	}
	at := 0
	var got []string
	var peers []*load.Wires
	for n := range 2 {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			path := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
			got = append(got, fmt.Sprintf("%s at %d as %s", path, n, r.Header.Get("Authorization")))
			w.WriteHeader(script[at].status)
			_, _ = io.WriteString(w, script[at].answer)
		}))
		defer srv.Close()
		peers = append(peers, &load.Wires{Target: load.Target{Addr: srv.Listener.Addr().String()}})
	}
	k := agents(&Options{Agents: 1, Prefix: "t"}, []poolToken{{"p", "secret"}})
	var want []string
	for ; at < len(script); at++ {
		s := script[at]
		want = append(want, fmt.Sprintf("%s at %d as Bearer secret", s.path, s.peer))
		if next := k.call(context.Background(), peers, 0, time.Now()); next < s.atLeast || next > s.atMost {
			t.Errorf("call %d: got the next one in %s, want %s to %s", at, next, s.atLeast, s.atMost)
		}
		if k.members[0].known != s.registered {
			t.Errorf("call %d: got registered %v", at, k.members[0].known)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if c := k.count(); c.Forgotten != 1 || c.Known != 1 || c.Failures["503"] != 1 || c.Failures["404"] != 1 ||
		len(c.Failures) != 2 {
		t.Errorf("got %+v", c)
	}
}

func TestBackoff(t *testing.T) {
	for rounds, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second,
		6: lastBackoff, 66: lastBackoff} {
		for range 20 {
			if got := backoff(rounds); got < want/2 || got > want {
				t.Errorf("after %d rounds: got %s, want %s to %s", rounds, got, want/2, want)
			}
		}
	}
}

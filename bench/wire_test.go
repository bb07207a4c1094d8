package bench

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/bench/crowd"
	"github.com/holdfast-metal/holdfast/bench/load"
)

// TestWire checks that net/http understands the driver's requests, and that the driver reads
// answers of any length on a persistent connection.
func TestWire(t *testing.T) {
	a := newAgent(7, "secret")
	var lengths []int
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body["machine_id"] != "m-000007" ||
			body["pool_name"] != poolName {
			t.Errorf("%s: got %v, %v", r.URL, body, err)
		}
		if got := r.Header.Get("Authorization"); got != "Bearer secret" {
			t.Errorf("got %q", got)
		}
		n := 10_000 * len(lengths)
		lengths = append(lengths, n)
		w.WriteHeader(http.StatusOK + len(lengths))
		_, _ = io.WriteString(w, strings.Repeat("x", n))
	}))
	defer srv.Close()
	w, err := load.Target{Addr: srv.Listener.Addr().String()}.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var body []byte
	for i, request := range [][]byte{a.Keepalive(nil, "h"), a.Register(nil, "h"), a.Keepalive(nil, "h")} {
		status, answer, err := w.Call(request, body)
		if err != nil || status != 201+i || string(answer) != strings.Repeat("x", 10_000*i) {
			t.Errorf("request %d: got %d, %d bytes, %v", i, status, len(answer), err)
		}
		body = answer
	}
}

// TestStaleWires checks that a request on a connection that the server has closed as idle is
// repeated on a new one. A server that is gone, or closes new connections, is an error.
func TestStaleWires(t *testing.T) {
	var answered atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { answered.Add(1) }))
	defer srv.Close()
	to := load.Target{Addr: srv.Listener.Addr().String()}
	a := newAgent(7, "secret")
	p := &load.Wires{Target: to}
	defer p.Close()
	c := crowd.New([]load.Agent{a}, []load.Target{to})
	defer c.Close()
	for i := range 3 {
		if status, _, err := p.Post(t.Context(), a.Keepalive(nil, to.Addr)); err != nil || status != http.StatusOK {
			t.Errorf("post %d: got %d, %v", i, status, err)
		}
		if got := c.Reconnect(t.Context(), 1, time.Minute); got.Renewed() != 1 || got.Failed() != 0 {
			t.Errorf("reconnect %d: got %+v, want one renewal at the first try", i, got)
		}
		if n := p.Open(); n != 1 {
			t.Errorf("after post %d: got %d connections, want 1", i, n)
		}
		srv.CloseClientConnections()
	}
	if got, want := answered.Load(), int64(6); got != want {
		t.Errorf("got %d answers, want %d", got, want)
	}
	srv.Close()
	if _, _, err := p.Post(t.Context(), a.Keepalive(nil, to.Addr)); err == nil {
		t.Error("post to a server that is gone: got no error")
	}
	rude := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer rude.Close()
	r := &load.Wires{Target: load.Target{Addr: rude.Listener.Addr().String()}}
	if _, _, err := r.Post(t.Context(), a.Keepalive(nil, r.Addr)); err == nil || r.Open() != 0 {
		t.Errorf("post to a server that closes new connections: got %v and %d connections", err, r.Open())
	}
}

func TestInterval(t *testing.T) {
	for in, want := range map[string]time.Duration{`{"next_keepalive_ms":61500}`: 61500 * time.Millisecond, `{}`: 0,
		`x`: 0} {
		if got := load.Interval([]byte(in)); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// TestInterleave checks that each contender has a turn in each round, and that the first round does
// not count.
func TestInterleave(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	agents := []load.Agent{newAgent(0, "a"), newAgent(1, "b"), newAgent(2, "c")}
	var all []*contest.Contender
	for _, name := range []string{"a", "b"} {
		l, err := load.NewPressure(t.Context(), load.Target{Addr: srv.Listener.Addr().String()}, 2, agents)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all = append(all, &contest.Contender{Name: name, Load: l})
	}
	out, err := contest.Interleave(t.Context(), 3, 100*time.Millisecond, all)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for name, o := range out {
		got[name] = len(o.Rate)
		if len(o.CPU[contest.DriverCPU]) != 3 || len(o.Latencies) == 0 {
			t.Errorf("%s: got %d CPU figures and %d latencies", name,
				len(o.CPU[contest.DriverCPU]), len(o.Latencies))
		}
	}
	if diff := cmp.Diff(map[string]int{"a": 3, "b": 3}, got); diff != "" {
		t.Error(diff)
	}
	srv.Close()
	if _, err := contest.Interleave(t.Context(), 1, 20*time.Millisecond, all); err == nil {
		t.Error("run with a server that is gone: got no error")
	}
}

package client

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/client/internal/hedge"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// hang receives a call and does not answer it.
func hang(ctx context.Context, _ int) error {
	<-ctx.Done()
	return ctx.Err()
}

// stopped returns a peer that answers nothing, not even the health checks, and does not notice the
// end of the caller's context. A stopped process does not notice it either.
func stopped(t *testing.T) *fakePeer {
	t.Helper()
	end := make(chan struct{})
	silent := func(context.Context, int) error {
		<-end
		return context.Canceled
	}
	p := startPeer(t, &fakePeer{unary: silent, health: silent})
	t.Cleanup(func() { close(end) }) // before the server waits for the calls
	return p
}

func register1(ctx context.Context, c *Client) error { return register("m-1")(ctx, c) }

// A silent peer delays a call that may be sent twice by two seconds, once. The next call starts at
// another peer.
func TestSlowPeerIsRaced(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		call func(context.Context, *Client) error
	}{{"a read", get}, {"a start with a request id", start("req-1")},
		{"a write that may not be sent twice at once", register1}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, b := stopped(t), startPeer(t, &fakePeer{})
			c := dial(t, Config{Addrs: []string{a.addr, b.addr}})
			c.peers.tryTimeout = time.Hour // only the race brings an answer, even on a busy machine
			began := time.Now()
			if err := tt.call(testContext(t), c); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < hedge.First {
				t.Errorf("got an answer after %v, want at least %v", took, hedge.First)
			}
			if got := c.peers.order.List()[0]; got != 1 {
				t.Errorf("next call: got peer %d first, want 1", got)
			}
			before := a.count()
			began = time.Now()
			err := tt.call(testContext(t), c)
			if took := time.Since(began); err != nil || took < hedge.First && a.count() != before {
				t.Errorf("next call: got %v, %v, %d calls to the first peer, want the other peer at once",
					took, err, a.count()-before)
			}
			if b.count() < 2 {
				t.Errorf("got %d calls to the other peer, want 2", b.count())
			}
		})
	}
}

// The caller gets the complete answer of one peer.
func TestRaceReturnsOneAnswer(t *testing.T) {
	t.Parallel()
	a, b := stopped(t), startPeer(t, &fakePeer{run: &holdfastv1.Run{RunId: "run-1", Type: "REBOOT"}})
	c := dial(t, Config{Addrs: []string{a.addr, b.addr}})
	r, err := c.Runs().GetRun(testContext(t), &holdfastv1.GetRunRequest{RunId: "run-1"})
	if err != nil || r.GetType() != "REBOOT" {
		t.Errorf("got %v, %v", r, err)
	}
	b.run = nil
	if _, err := c.Runs().GetRun(testContext(t),
		&holdfastv1.GetRunRequest{RunId: "run-1"}); status.Code(err) != codes.NotFound {
		t.Errorf("got %v, want the refusal", err)
	}
}

// touched is a reply that counts its accesses.
type touched struct {
	*holdfastv1.Run
	times *atomic.Int64
}

func (m touched) ProtoReflect() protoreflect.Message {
	m.times.Add(1)
	return m.Run.ProtoReflect()
}

// While the first peer may be writing its answer into the caller's reply, the reply must not be
// read for a request to another peer.
func TestRacersShareNothing(t *testing.T) {
	t.Parallel()
	reply := touched{&holdfastv1.Run{}, &atomic.Int64{}}
	var first, second atomic.Int64
	slow := startPeer(t, &fakePeer{unary: func(ctx context.Context, n int) error {
		first.Store(reply.times.Load())
		return hang(ctx, n)
	}})
	quick := startPeer(t, &fakePeer{run: &holdfastv1.Run{RunId: "run-1"}, unary: func(context.Context, int) error {
		second.Store(reply.times.Load())
		return nil
	}})
	c := dial(t, Config{Addrs: []string{slow.addr, quick.addr}})
	req := &holdfastv1.GetRunRequest{RunId: "run-1"}
	if err := c.peers.Invoke(testContext(t), holdfastv1.RunService_GetRun_FullMethodName, req, reply,
		grpc.StaticMethod()); err != nil || reply.GetRunId() != "run-1" {
		t.Fatalf("got %v, %v", reply.Run, err)
	}
	if first.Load() != second.Load() {
		t.Errorf("got %d accesses to the reply at the request to the second peer, %d at the first",
			second.Load(), first.Load())
	}
}

// A request that must not be sent twice waits for its peer, and its outcome stays unknown.
func TestOnceIsNotRaced(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, *Client) error{"delete": remove,
		"start without a request id": start(""), "machine without an id": register("")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := stopped(t), startPeer(t, &fakePeer{})
			c := dial(t, Config{Addrs: []string{a.addr, b.addr}, Timeout: hedge.First + probeTimeout + time.Second})
			var got *CallError
			if err := call(context.Background(), c); !errors.As(err, &got) || !got.OutcomeUnknown || b.count() != 0 {
				t.Errorf("got %v, %d calls to the other peer, want an unknown outcome and none", err, b.count())
			}
		})
	}
}

// Two tries must not share options of the caller that are written to.
func TestCallerOptionsAreNotShared(t *testing.T) {
	c := call{reply: &holdfastv1.Machine{}, opts: []grpc.CallOption{grpc.StaticMethod()}}
	if !c.mayRace() {
		t.Error("call of a stub: got no race")
	}
	if c.opts = append(c.opts, grpc.Peer(nil)); c.mayRace() {
		t.Error("call with an option for its peer: got a race")
	}
}

// A write in progress is not sent elsewhere for as long as a peer may wait for a leader.
func TestBusyPeerKeepsItsWrite(t *testing.T) {
	t.Parallel()
	a := startPeer(t, &fakePeer{unary: func(ctx context.Context, _ int) error {
		select {
		case <-time.After(hedge.First + probeTimeout + time.Second): // sleep: a slow peer
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	b := startPeer(t, &fakePeer{})
	if err := register1(testContext(t), dial(t, Config{Addrs: []string{a.addr, b.addr}})); err != nil || b.count() != 0 {
		t.Errorf("got %v, %d calls to the other peer, want none", err, b.count())
	}
}

// A watch whose peer has stopped continues at another one, after its last event.
func TestStreamLeavesStoppedPeer(t *testing.T) {
	t.Parallel()
	a, b := stopped(t), startPeer(t, &fakePeer{})
	a.watch = serving(0, nil, event(7, 10, "run-1"))
	b.watch = serving(7, nil, event(8, 11, "run-1"))
	c := dial(t, Config{Addrs: []string{a.addr, b.addr}})
	began, got := time.Now(), []uint64(nil)
	enough := errors.New("enough")
	err := c.WatchRuns(testContext(t), "", 0, func(e *holdfastv1.RunEvent) error {
		if got = append(got, e.GetCursor()); len(got) == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || got[1] != 8 {
		t.Fatalf("got %v, %v", got, err)
	}
	if took, limit := time.Since(began), streamQuiet+probeTimeout+10*time.Second; took > limit {
		t.Errorf("got the next event after %v, want it within %v", took, limit)
	}
}

// A quiet watch of a live peer without health checks stays there.
func TestQuietStreamStays(t *testing.T) {
	t.Parallel()
	a, b := startPeer(t, &fakePeer{}), startPeer(t, &fakePeer{})
	a.watch = serving(0, nil, event(7, 10, "run-1"))
	b.watch = serving(99, nil)
	c := dial(t, Config{Addrs: []string{a.addr, b.addr}})
	ctx, cancel := context.WithTimeout(t.Context(), 2*(streamQuiet+probeTimeout))
	defer cancel()
	if err := c.WatchRuns(ctx, "", 0,
		func(*holdfastv1.RunEvent) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the watch to end with its context", err)
	}
}

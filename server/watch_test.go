package server

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/call"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

type eventStream = grpc.ServerStreamingClient[holdfastv1.RunEvent]

func watch(t *testing.T, c *clients, filter string, cursor uint64) eventStream {
	t.Helper()
	stream, err := c.WatchRuns(testCtx(t), &holdfastv1.WatchRunsRequest{Filter: filter, Cursor: cursor})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// word formats an event: run, phase, cursor.
func word(e *holdfastv1.RunEvent) string {
	return fmt.Sprintf("%s %s %d", e.GetSnapshot().GetRunId(), e.GetSnapshot().GetPhase(), e.GetCursor())
}

func receive(t *testing.T, s eventStream, want ...string) {
	t.Helper()
	for _, w := range want {
		e, err := s.Recv()
		if err != nil {
			t.Fatalf("got %v, want %q", err, w)
		}
		if got := word(e); got != w {
			t.Fatalf("got %q, want %q", got, w)
		}
	}
}

func TestWatchRuns(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	for _, id := range []string{"m-1", "m-2", "m-3"} {
		n.Machine(t, id)
		n.Start(t, id, "run-"+id, "") // cursors 1, 2, 3
	}
	n.Finish(t, "run-m-1", holdfastv1.Attempt_SUCCEEDED) // 4, 5

	all := watch(t, c, "", 0)
	receive(t, all, "run-m-1 SUCCEEDED 0", "run-m-2 PENDING 0", "run-m-3 PENDING 5")
	one := watch(t, c, "machine_id=m-2", 0)
	receive(t, one, "run-m-2 PENDING 5")
	resumed := watch(t, c, "", 3)
	receive(t, resumed, "run-m-1 RUNNING 4", "run-m-1 SUCCEEDED 5")
	n.Begin(t, "run-m-2", 1) // 6
	running := watch(t, c, "phase=RUNNING", 0)
	receive(t, running, "run-m-2 RUNNING 6")
	n.End(t, "run-m-2", 1, holdfastv1.Attempt_FAILED) // 7
	n.Do(t, &internalv1.CancelRun{RunId: "run-m-3"})  // 8
	n.Start(t, "m-1", "run-late", "")                 // 9

	want := []string{"run-m-2 RUNNING 6", "run-m-2 FAILED 7", "run-m-3 CANCELED 8", "run-late PENDING 9"}
	receive(t, all, want...)
	receive(t, resumed, want...)
	receive(t, one, want[:2]...)
	receive(t, running, want[1]) // the event with which it stops matching, too

	bad := watch(t, c, "colour=red", 0)
	_, err := bad.Recv()
	wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")
}

// TestWatchWait checks that events have the same wait as reads, with its sentence, in new and old
// streams.
func TestWatchWait(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	plan := nodetest.OnePlan("two")
	plan.Steps = append(plan.Steps, proto.CloneOf(plan.GetSteps()[0]))
	plan.Steps[1].Name = "second"
	n.Do(t, &internalv1.CreatePlan{Plan: plan})
	n.Machine(t, "m-1")
	all := watch(t, c, "", 0)
	for _, tt := range []struct {
		do   func()
		kind holdfastv1.Wait_Kind
		want string
	}{
		{func() { n.Start(t, "m-1", "run-1", "two") }, holdfastv1.Wait_QUEUE, "a free slot"},
		{func() { n.Begin(t, "run-1", 1) }, holdfastv1.Wait_STEP, "the ssh step"},
		{func() {
			n.Do(t, &internalv1.NoteProgress{RunId: "run-1", Step: "one", Attempt: 1, Wait: &holdfastv1.Wait{
				Kind: holdfastv1.Wait_ANSWER, Subject: "host", Cause: "refused"}})
		}, holdfastv1.Wait_ANSWER, "the host to answer, but refused"},
		{func() { n.End(t, "run-1", 1, holdfastv1.Attempt_SUCCEEDED) }, holdfastv1.Wait_TURNSTILE, "step second to begin"},
	} {
		tt.do()
		filter := fmt.Sprintf("wait.kind = %s AND wait.sentence = %q", tt.kind, tt.want)
		got := map[string]string{}
		for name, s := range map[string]eventStream{"a stream": all, "a new stream": watch(t, c, filter, 0)} {
			e, err := s.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if m := e.GetMessage(); tt.kind == holdfastv1.Wait_ANSWER && name == "a stream" &&
				m != "step one: waiting for "+tt.want {
				t.Errorf("got message %q of a wait for %q", m, tt.want)
			}
			got[name] = e.GetSnapshot().GetWait().GetSentence()
		}
		run, err := c.GetRun(testCtx(t), &holdfastv1.GetRunRequest{RunId: "run-1"})
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.ListRuns(testCtx(t), &holdfastv1.ListRunsRequest{Filter: filter})
		if err != nil || len(list.GetRuns()) != 1 {
			t.Fatalf("list of %s: got %v, %v, want one run", filter, list, err)
		}
		got["a read"], got["a list"] = run.GetWait().GetSentence(), list.GetRuns()[0].GetWait().GetSentence()
		want := map[string]string{"a stream": tt.want, "a new stream": tt.want, "a read": tt.want, "a list": tt.want}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("wait (-want +got):\n%s", diff)
		}
	}
}

// TestWatchCurrentOfNothing checks that the stream waits if there are no runs.
func TestWatchCurrentOfNothing(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	n.Machine(t, "m-1")
	s := watch(t, c, "", 0)
	n.Start(t, "m-1", "run-1", "")
	e, err := s.Recv()
	if err != nil || e.GetSnapshot().GetRunId() != "run-1" || e.GetCursor() != 1 {
		t.Errorf("got %v, %v", e, err)
	}
}

func TestWatchCursorGone(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	n.Machine(t, "m-1")
	n.Start(t, "m-1", "run-1", "")
	_, err := watch(t, c, "", 99).Recv() // never given out
	wantError(t, err, codes.OutOfRange, "CURSOR_GONE")

	n.Begin(t, "run-1", 1)
	n.Outgrow("run-1")
	_, err = watch(t, c, "", 1).Recv() // not kept any more
	wantError(t, err, codes.OutOfRange, "CURSOR_GONE")
}

// A watch without matching runs gets bookmarks, so that it can resume even if more events
// have passed than are kept.
func TestWatchBookmarks(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	n.Machine(t, "m-1")
	n.Start(t, "m-1", "run-1", "")
	n.Begin(t, "run-1", 1)                                         // cursor 2
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // to outgrow the log takes its time
	defer cancel()
	stream := func(cursor uint64) eventStream {
		s, err := c.WatchRuns(ctx, &holdfastv1.WatchRunsRequest{Filter: "machine_id=m-none", Cursor: cursor, Bookmarks: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := stream(0)
	var last uint64
	next := func() {
		t.Helper()
		e, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if e.GetSnapshot() != nil || e.GetCursor() <= last {
			t.Fatalf("got %q, want a bookmark after %d", word(e), last)
		}
		last = e.GetCursor()
	}
	next()
	if last != 2 {
		t.Errorf("the bookmark after an empty state: got cursor %d, want 2", last)
	}
	n.Outgrow("run-1")
	want := n.Peer.View().LastRunEvent()
	for last+4096 <= want {
		next()
	}
	// Without the bookmarks the client would have to resume after cursor 2.
	_, err := stream(2).Recv()
	wantError(t, err, codes.OutOfRange, "CURSOR_GONE")
	s = stream(last)
	for range 4096 {
		n.Do(t, &internalv1.NoteProgress{RunId: "run-1", Step: "one", Attempt: 1})
	}
	next()
}

// TestWatchAheadOfStaleView checks that a cursor that this peer does not have yet is
// accepted.
func TestWatchAheadOfStaleView(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	n.Machine(t, "m-1")
	n.Start(t, "m-1", "run-1", "")
	calls := 0
	n.Viewed = func(ctx context.Context) error {
		if calls++; calls == 2 {
			if call.ConsistencyFrom(ctx) != (call.Consistency{}) {
				t.Error("asked for a stale view again")
			}
			n.Begin(t, "run-1", 1) // it arrives while the linearizable view is waited for
		}
		return nil
	}
	s := watch(t, c, "", 2)
	eventually(t, "the stream has caught up", func() bool { return n.Peer.View().LastRunEvent() == 2 })
	n.End(t, "run-1", 1, holdfastv1.Attempt_SUCCEEDED)
	receive(t, s, "run-1 SUCCEEDED 3")
}

func TestWatchDrains(t *testing.T) {
	n := nodetest.New()
	srv, c := serve(t, n, Config{})
	n.Machine(t, "m-1")
	n.Start(t, "m-1", "run-1", "")
	s := watch(t, c, "", 0)
	receive(t, s, "run-1 PENDING 1")
	logs, err := c.StreamRunLogs(testCtx(t), &holdfastv1.StreamRunLogsRequest{RunId: "run-1"})
	if err != nil {
		t.Fatal(err)
	}
	srv.Drain()
	srv.Drain()
	_, err = s.Recv()
	wantError(t, err, codes.Unavailable, "SHUTTING_DOWN")
	_, err = logs.Recv()
	wantError(t, err, codes.Unavailable, "SHUTTING_DOWN")
}

// TestWatchSlow checks that a slow client blocks no other client, and misses no event.
func TestWatchSlow(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	n.Machine(t, "m-1")
	slow, fast := watch(t, c, "", 0), watch(t, c, "", 0)
	const runs = 1200 // more than the buffers of a connection hold, and than the tail keeps
	go func() {
		for i := range runs {
			id := fmt.Sprintf("run-%d", i)
			n.Start(t, "m-1", id, "")
			n.Do(t, &internalv1.CancelRun{RunId: id, Reason: strings.Repeat("x", 500)})
		}
	}()
	for _, s := range []eventStream{fast, slow} {
		for want := uint64(1); want <= 2*runs; want++ {
			e, err := s.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if e.GetCursor() == 0 || e.GetMessage() == "current state" {
				want = e.GetCursor()
			} else if e.GetCursor() != want {
				t.Fatalf("got cursor %d after %d", e.GetCursor(), want-1)
			}
		}
	}
}

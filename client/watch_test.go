package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

type eventStream = grpc.ServerStreamingServer[holdfastv1.RunEvent]

// event returns a transition. The cursor counts events, and the index is the Raft index of the
// change.
func event(cursor, index uint64, run string) *holdfastv1.RunEvent {
	return &holdfastv1.RunEvent{Cursor: cursor, Index: index,
		Snapshot: &holdfastv1.Run{RunId: run, Revision: index, Phase: holdfastv1.Run_RUNNING}}
}

func bookmark(cursor uint64) *holdfastv1.RunEvent { return &holdfastv1.RunEvent{Cursor: cursor} }

// serving sends the events and then ends the stream with the error, or keeps it open for nil.
func serving(
	wantCursor uint64, end error, events ...*holdfastv1.RunEvent,
) func(*holdfastv1.WatchRunsRequest, eventStream) error {
	return func(r *holdfastv1.WatchRunsRequest, s eventStream) error {
		if r.GetCursor() != wantCursor {
			return status.Errorf(codes.Internal, "got cursor %d, want %d", r.GetCursor(), wantCursor)
		}
		if end == nil {
			if err := s.SendHeader(nil); err != nil { // as a peer does at the start of a stream
				return err
			}
		}
		for _, e := range events {
			if err := s.Send(e); err != nil {
				return err
			}
		}
		if end == nil {
			<-s.Context().Done()
			return s.Context().Err()
		}
		return end
	}
}

// inTurn serves the first stream with the first function, and so on, on any peer.
func inTurn(t *testing.T, parts ...func(*holdfastv1.WatchRunsRequest, eventStream) error) []string {
	t.Helper()
	var n atomic.Int32
	watch := func(r *holdfastv1.WatchRunsRequest, s eventStream) error {
		i := int(n.Add(1)) - 1
		if i >= len(parts) {
			return status.Errorf(codes.Internal, "got unexpected stream %d", i+1)
		}
		return parts[i](r, s)
	}
	return []string{startPeer(t, &fakePeer{watch: watch}).addr, startPeer(t, &fakePeer{watch: watch}).addr}
}

// watchUntil collects events as "run@revision" until the last expected one.
func watchUntil(t *testing.T, addrs []string, cursor uint64, last string) ([]string, error) {
	t.Helper()
	c := dial(t, Config{Addrs: addrs})
	var got []string
	err := c.WatchRuns(testContext(t), "", cursor, func(e *holdfastv1.RunEvent) error {
		id := fmt.Sprintf("%s@%d", e.GetSnapshot().GetRunId(), e.GetSnapshot().GetRevision())
		got = append(got, id)
		if id == last {
			return errDone
		}
		return nil
	})
	return got, err
}

var errDone = errors.New("seen enough")

func TestWatchResumes(t *testing.T) {
	broken := status.Error(codes.Unavailable, "peer died")
	gone := status.Error(codes.OutOfRange, "cursor is gone")
	for _, tt := range []struct {
		name   string
		cursor uint64
		parts  []func(*holdfastv1.WatchRunsRequest, eventStream) error
		want   []string
	}{
		{
			name:   "after the last event",
			cursor: 10,
			parts: []func(*holdfastv1.WatchRunsRequest, eventStream) error{
				serving(10, broken, event(11, 101, "a"), event(12, 102, "b")),
				serving(12, nil, event(13, 103, "a"), event(14, 104, "z")),
			},
			want: []string{"a@101", "b@102", "a@103", "z@104"},
		},
		{
			name:   "an event that a peer sends again is not delivered again",
			cursor: 10,
			parts: []func(*holdfastv1.WatchRunsRequest, eventStream) error{
				serving(10, broken, event(11, 101, "a"), event(12, 102, "b")),
				serving(12, nil, event(11, 101, "a"), event(12, 102, "b"), event(13, 103, "z")),
			},
			want: []string{"a@101", "b@102", "z@103"},
		},
		{
			name: "complete state, resumed after its last event",
			parts: []func(*holdfastv1.WatchRunsRequest, eventStream) error{
				serving(0, broken, event(0, 90, "a"), event(20, 70, "b")),
				serving(20, nil, event(21, 101, "z")),
			},
			want: []string{"a@90", "b@70", "z@101"},
		},
		{
			name: "state of one run",
			parts: []func(*holdfastv1.WatchRunsRequest, eventStream) error{
				serving(0, broken, event(20, 70, "b")),
				serving(20, nil, event(21, 101, "z")),
			},
			want: []string{"b@70", "z@101"},
		},
		{
			name: "bookmarks skip other events and end an empty state",
			parts: []func(*holdfastv1.WatchRunsRequest, eventStream) error{
				serving(0, broken, bookmark(20)),
				serving(20, broken, bookmark(25)),
				serving(25, nil, event(26, 101, "z")),
			},
			want: []string{"z@101"},
		},
		{
			name: "empty state without a bookmark, restarted",
			parts: []func(*holdfastv1.WatchRunsRequest, eventStream) error{
				serving(0, broken),
				serving(0, broken, event(21, 101, "a")),
				serving(21, nil, event(22, 102, "z")),
			},
			want: []string{"a@101", "z@102"},
		},
		{
			name: "interrupted state, sent again without delivered events",
			parts: []func(*holdfastv1.WatchRunsRequest, eventStream) error{
				serving(0, broken, event(0, 90, "a"), event(0, 95, "b")),
				serving(0, broken, event(0, 90, "a"), event(0, 97, "b"), event(22, 40, "c")),
				serving(22, nil, event(23, 101, "z")),
			},
			want: []string{"a@90", "b@95", "b@97", "c@40", "z@101"},
		},
		{
			name: "last event delivered twice",
			parts: []func(*holdfastv1.WatchRunsRequest, eventStream) error{
				serving(0, broken, event(0, 90, "a"), event(0, 95, "b")),
				serving(0, broken, event(0, 90, "a"), event(22, 95, "b")),
				serving(22, nil, event(23, 101, "z")),
			},
			want: []string{"a@90", "b@95", "z@101"},
		},
		{
			name:   "expired cursor, lower indexes of a recovered cluster",
			cursor: 10,
			parts: []func(*holdfastv1.WatchRunsRequest, eventStream) error{
				serving(10, broken, event(11, 101, "a"), event(12, 102, "b")),
				serving(12, gone),
				serving(0, broken, event(0, 101, "a"), event(0, 102, "b"), event(0, 102, "c"), event(0, 150, "d"),
					event(40, 60, "e")),
				serving(40, nil, event(41, 160, "z")),
			},
			want: []string{"a@101", "b@102", "a@101", "b@102", "c@102", "d@150", "e@60", "z@160"},
		},
		{
			name:   "a stream that ends without an error goes on too",
			cursor: 10,
			parts: []func(*holdfastv1.WatchRunsRequest, eventStream) error{
				func(*holdfastv1.WatchRunsRequest, eventStream) error { return nil },
				serving(10, status.Error(codes.Canceled, "stopping"), event(11, 101, "a")),
				serving(11, nil, event(12, 102, "z")),
			},
			want: []string{"a@101", "z@102"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := watchUntil(t, inTurn(t, tt.parts...), tt.cursor, tt.want[len(tt.want)-1])
			if !errors.Is(err, errDone) {
				t.Errorf("got %v, want %v", err, errDone)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWatchSurvivesKilledPeer(t *testing.T) {
	a, b := &fakePeer{}, &fakePeer{watch: serving(11, nil, event(12, 102, "z"))}
	a.watch = func(_ *holdfastv1.WatchRunsRequest, s eventStream) error {
		if err := s.Send(event(11, 101, "a")); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	}
	startPeer(t, a)
	startPeer(t, b)
	c := dial(t, Config{Addrs: []string{a.addr, b.addr}})
	var got []string
	err := c.WatchRuns(testContext(t), "", 10, func(e *holdfastv1.RunEvent) error {
		got = append(got, e.GetSnapshot().GetRunId())
		if len(got) == 2 {
			return errDone
		}
		a.server.Stop()
		return nil
	})
	if diff := cmp.Diff([]string{"a", "z"}, got); diff != "" || !errors.Is(err, errDone) {
		t.Errorf("got error %v, events (-want +got):\n%s", err, diff)
	}
}

func TestWatchEnds(t *testing.T) {
	t.Run("with a refusal", func(t *testing.T) {
		addrs := inTurn(t, serving(0, status.Error(codes.InvalidArgument, "no such field")))
		if _, err := watchUntil(t, addrs, 0, ""); status.Code(err) != codes.InvalidArgument {
			t.Errorf("got %v, want INVALID_ARGUMENT", err)
		}
	})
	t.Run("with the context", func(t *testing.T) {
		addrs := inTurn(t, serving(0, nil, event(0, 1, "a")))
		ctx, cancel := context.WithCancel(testContext(t))
		err := dial(t, Config{Addrs: addrs}).WatchRuns(ctx, "", 0, func(*holdfastv1.RunEvent) error {
			cancel()
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
	t.Run("when no peer is found in time", func(t *testing.T) {
		c := dial(t, Config{Addrs: []string{refusedAddr(t), refusedAddr(t)}, ReconnectTimeout: 100 * time.Millisecond})
		err := c.WatchRuns(testContext(t), "", 0, func(*holdfastv1.RunEvent) error { return nil })
		var call *CallError
		if !errors.As(err, &call) || status.Code(err) != codes.Unavailable {
			t.Errorf("got %v, want a *CallError with UNAVAILABLE", err)
		}
	})
}

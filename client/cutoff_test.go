package client

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestDeadlineOfStream checks that a stream that no peer has served reports why, and one that was
// served reports that its time is up.
func TestDeadlineOfStream(t *testing.T) {
	const limit = 700 * time.Millisecond
	noLeader := serving(0, status.Error(codes.Unavailable, "no leader"))
	for _, tt := range []struct {
		name  string
		addrs func(t *testing.T) []string
		want  codes.Code // of the CallError; OK: the context's error alone

		reconnect time.Duration // ReconnectTimeout; zero: none
	}{
		{"nothing listens", func(t *testing.T) []string { return []string{refusedAddr(t)} }, codes.Unavailable, 0},
		{"the peer refuses", func(t *testing.T) []string {
			return []string{startPeer(t, &fakePeer{watch: noLeader}).addr}
		}, codes.Unavailable, 0},
		// The second try is cut before the peer can be expected to refuse again.
		{"the peer refuses slowly", func(t *testing.T) []string {
			var n atomic.Int32
			return []string{startPeer(t, &fakePeer{watch: func(r *holdfastv1.WatchRunsRequest, s eventStream) error {
				if n.Add(1) > 1 {
					<-s.Context().Done()
					return s.Context().Err()
				}
				time.Sleep(200 * time.Millisecond) // sleep: the peer is slow
				return status.Error(codes.Unavailable, "no leader")
			}}).addr}
		}, codes.Unavailable, 0},
		{"the peer refuses at the last moment", func(t *testing.T) []string {
			return []string{startPeer(t, &fakePeer{watch: func(_ *holdfastv1.WatchRunsRequest, s eventStream) error {
				end, _ := s.Context().Deadline()
				time.Sleep(time.Until(end) / 2) // sleep: each refusal is nearer to the deadline
				return status.Error(codes.Unavailable, "no leader")
			}}).addr}
		}, codes.Unavailable, 0},
		{"the peer does not answer", func(t *testing.T) []string {
			return []string{startPeer(t, &fakePeer{watch: func(_ *holdfastv1.WatchRunsRequest, s eventStream) error {
				<-s.Context().Done()
				return s.Context().Err()
			}}).addr}
		}, codes.OK, 0},
		{"the peer ends the stream at the last moment", func(t *testing.T) []string {
			return []string{startPeer(t, &fakePeer{watch: func(_ *holdfastv1.WatchRunsRequest, s eventStream) error {
				end, _ := s.Context().Deadline()
				time.Sleep(time.Until(end) - cutMargin/2) // sleep: before the client's own clock ends it
				return status.Error(codes.Canceled, "stream terminated")
			}}).addr}
		}, codes.OK, limit},
		{"no events", func(t *testing.T) []string {
			return []string{startPeer(t, &fakePeer{watch: serving(0, nil)}).addr}
		}, codes.OK, 0},
		{"no events, from the second peer", func(t *testing.T) []string {
			return []string{refusedAddr(t), startPeer(t, &fakePeer{watch: serving(0, nil)}).addr}
		}, codes.OK, 0},
		{"no peer after an event", func(t *testing.T) []string {
			var n atomic.Int32
			return []string{startPeer(t, &fakePeer{watch: func(r *holdfastv1.WatchRunsRequest, s eventStream) error {
				if n.Add(1) > 1 {
					return status.Error(codes.Unavailable, "no leader")
				}
				return serving(0, status.Error(codes.Unavailable, "peer stops"), event(11, 101, "a"))(r, s)
			}}).addr}
		}, codes.OK, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, Config{Addrs: tt.addrs(t), ReconnectTimeout: cmp.Or(tt.reconnect, -1)})
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := c.WatchRuns(ctx, "", 0, func(*holdfastv1.RunEvent) error { return nil })
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want context.DeadlineExceeded in it", err)
			}
			got := codes.OK
			if call, ok := errors.AsType[*CallError](err); ok {
				got = status.Code(call)
			}
			if got != tt.want {
				t.Errorf("got code %v (%v), want %v", got, err, tt.want)
			}
		})
	}
}

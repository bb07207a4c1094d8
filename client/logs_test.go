package client

import (
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const runLog = "power off\npower on\ninstalling\ndone\n"

type logStream = grpc.ServerStreamingServer[holdfastv1.LogChunk]

// logPeer sends the log in chunks of 7 bytes, starting at the chunk with the requested offset minus
// back, and breaks the stream after breakAfter chunks (0: never).
func logPeer(breakAfter int, back int64, offsets *[]int64) func(*holdfastv1.StreamRunLogsRequest, logStream) error {
	return func(r *holdfastv1.StreamRunLogsRequest, s logStream) error {
		*offsets = append(*offsets, r.GetOffset())
		at := max(r.GetOffset()-back, 0)
		for n := 1; at < int64(len(runLog)); n++ {
			data := []byte(runLog[at:min(at+7, int64(len(runLog)))])
			if err := s.Send(&holdfastv1.LogChunk{Offset: at, Data: data}); err != nil {
				return err
			}
			at += int64(len(data))
			if n == breakAfter {
				return status.Error(codes.Unavailable, "peer died")
			}
		}
		return nil
	}
}

func TestFollowLogsResumes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		back   int64
		offset int64
	}{
		{"from the start", 0, 0},
		{"from an offset", 0, 12},
		{"peers that send too much", 5, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var offsets []int64
			a := startPeer(t, &fakePeer{logs: logPeer(1, tt.back, &offsets)})
			b := startPeer(t, &fakePeer{logs: logPeer(2, tt.back, &offsets)})
			c := dial(t, Config{Addrs: []string{a.addr, b.addr}})
			var got string
			next := tt.offset
			err := c.FollowLogs(testContext(t), "run-1", tt.offset, func(chunk *holdfastv1.LogChunk) error {
				if chunk.GetOffset() != next {
					t.Errorf("got a chunk at %d, want %d", chunk.GetOffset(), next)
				}
				got += string(chunk.GetData())
				next += int64(len(chunk.GetData()))
				return nil
			})
			if want := runLog[tt.offset:]; err != nil || got != want {
				t.Errorf("got log %q (%v), want %q", got, err, want)
			}
			if len(offsets) < 3 {
				t.Errorf("got requests at offsets %v, want the stream broken twice", offsets)
			}
		})
	}
}

func TestFollowLogsKeepsTheTruncationMark(t *testing.T) {
	a := startPeer(t, &fakePeer{logs: func(_ *holdfastv1.StreamRunLogsRequest, s logStream) error {
		if err := s.Send(&holdfastv1.LogChunk{Data: []byte("abc")}); err != nil {
			return err
		}
		return s.Send(&holdfastv1.LogChunk{Offset: 3, Truncated: true})
	}})
	truncated := false
	err := dial(t, Config{Addrs: []string{a.addr}}).ReadLogs(testContext(t), "run-1", 0,
		func(c *holdfastv1.LogChunk) error {
			truncated = truncated || c.GetTruncated()
			return nil
		})
	if err != nil || !truncated {
		t.Errorf("got truncated %v (%v), want true", truncated, err)
	}
}

func TestFollowLogsEndsWithTheCallersError(t *testing.T) {
	var offsets []int64
	a := startPeer(t, &fakePeer{logs: logPeer(0, 0, &offsets)})
	// An error that resembles a lost peer must not be treated as one.
	mine := status.Error(codes.Unavailable, "disk full")
	err := dial(t, Config{Addrs: []string{a.addr}}).FollowLogs(testContext(t), "run-1", 0,
		func(*holdfastv1.LogChunk) error { return mine })
	if !errors.Is(err, mine) || len(offsets) != 1 {
		t.Errorf("got %v after %d streams, want %v after 1", err, len(offsets), mine)
	}
}

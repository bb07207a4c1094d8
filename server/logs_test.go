package server

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

func logs(
	t *testing.T, c *clients, r *holdfastv1.StreamRunLogsRequest,
) grpc.ServerStreamingClient[holdfastv1.LogChunk] {
	t.Helper()
	s, err := c.StreamRunLogs(testCtx(t), r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readLog reads chunks up to a length, or to the end (-1), and checks that they are
// contiguous.
func readLog(t *testing.T, s grpc.ServerStreamingClient[holdfastv1.LogChunk], offset int64, length int) string {
	t.Helper()
	var b strings.Builder
	for b.Len() < length || length < 0 {
		c, err := s.Recv()
		if errors.Is(err, io.EOF) && length < 0 {
			return b.String()
		}
		if err != nil {
			t.Fatalf("after %d bytes: %v", b.Len(), err)
		}
		if c.GetOffset() != offset+int64(b.Len()) || c.GetRunId() == "" || len(c.GetData()) > 64<<10 {
			t.Fatalf("chunk of %d bytes at %d, want it at %d", len(c.GetData()), c.GetOffset(), offset+int64(b.Len()))
		}
		b.Write(c.GetData())
	}
	return b.String()
}

func TestStreamRunLogs(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	n.Machine(t, "m-1")
	n.Start(t, "m-1", "run-1", "")
	n.Begin(t, "run-1", 1)
	n.Log(t, "run-1", "power off\n")
	n.Log(t, "run-1", "power on\n")

	follow := logs(t, c, &holdfastv1.StreamRunLogsRequest{RunId: "run-1"})
	if got := readLog(t, follow, 0, 19); got != "power off\npower on\n" {
		t.Errorf("got %q", got)
	}
	if got := readLog(t, logs(t, c, &holdfastv1.StreamRunLogsRequest{RunId: "run-1", NoFollow: true}), 0,
		-1); got != "power off\npower on\n" {
		t.Errorf("without following: got %q", got)
	}
	if got := readLog(t, logs(t, c, &holdfastv1.StreamRunLogsRequest{RunId: "run-1", Offset: 19, NoFollow: true}), 19,
		-1); got != "" {
		t.Errorf("at the end: got %q", got)
	}
	n.Log(t, "run-1", "pinged\n")
	if got := readLog(t, follow, 19, 7); got != "pinged\n" {
		t.Errorf("followed: got %q", got)
	}
	resumed := logs(t, c, &holdfastv1.StreamRunLogsRequest{RunId: "run-1", Offset: 6})
	if got := readLog(t, resumed, 6, 20); got != "off\npower on\npinged\n" {
		t.Errorf("resumed: got %q", got)
	}
	n.Do(t, &internalv1.EndAttempt{
		RunId: "run-1", Step: "one", Attempt: 1, Outcome: holdfastv1.Attempt_SUCCEEDED,
		Log: &internalv1.LogAppend{RunId: "run-1", Offset: 26,
			Chunks: []*holdfastv1.LogChunk{{Data: []byte("done\n"), Stream: "stdout"}}},
	})
	if got := readLog(t, follow, 26, -1); got != "done\n" {
		t.Errorf("the end: got %q", got)
	}
	if got := readLog(t, resumed, 26, -1); got != "done\n" {
		t.Errorf("the end, resumed: got %q", got)
	}
}

func TestStreamRunLogsRefusals(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	n.Machine(t, "m-1")
	n.Start(t, "m-1", "run-1", "")
	for _, tt := range []struct {
		req    *holdfastv1.StreamRunLogsRequest
		code   codes.Code
		reason string
	}{
		{&holdfastv1.StreamRunLogsRequest{}, codes.InvalidArgument, "INVALID_FIELD"},
		{&holdfastv1.StreamRunLogsRequest{RunId: "run-1", Offset: -1}, codes.InvalidArgument, "INVALID_FIELD"},
		{&holdfastv1.StreamRunLogsRequest{RunId: "run-1", Offset: 1}, codes.OutOfRange, "OFFSET_BEYOND_END"},
		{&holdfastv1.StreamRunLogsRequest{RunId: "x"}, codes.NotFound, "RUN_NOT_FOUND"},
	} {
		_, err := logs(t, c, tt.req).Recv()
		wantError(t, err, tt.code, tt.reason)
	}
}

// TestStreamRunLogsLarge checks that large chunks are split, and that a stream can resume
// at every offset.
func TestStreamRunLogsLarge(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	n.Machine(t, "m-1")
	n.Start(t, "m-1", "run-1", "")
	n.Begin(t, "run-1", 1)
	var want strings.Builder
	for i := range 3 {
		piece := strings.Repeat(fmt.Sprint(i), 150<<10)
		want.WriteString(piece)
		n.Log(t, "run-1", piece)
	}
	n.End(t, "run-1", 1, holdfastv1.Attempt_SUCCEEDED)
	for _, offset := range []int64{0, 1, 64 << 10, 150<<10 - 1, 150 << 10, 449<<10 + 5, 450 << 10} {
		got := readLog(t, logs(t, c, &holdfastv1.StreamRunLogsRequest{RunId: "run-1", Offset: offset}), offset, -1)
		if got != want.String()[offset:] {
			t.Errorf("from %d: got %d bytes that are not the log's %d", offset, len(got), want.Len()-int(offset))
		}
	}
}

package ui

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// brokenLog is a log that fails after its chunks.
type brokenLog struct {
	Feed
	chunks int
}

func (l brokenLog) RunLog(
	_ context.Context, _ *holdfastv1.StreamRunLogsRequest, send func(*holdfastv1.LogChunk) error,
) error {
	for range l.chunks {
		if err := send(&holdfastv1.LogChunk{Data: []byte("line\n")}); err != nil {
			return err
		}
	}
	return status.Error(codes.Unavailable, "the peer is stopping")
}

// TestBrokenLog checks that a log that ends too early is not shown as a whole one: the response is
// an error, or is cut off if it has begun.
func TestBrokenLog(t *testing.T) {
	for chunks, want := range []string{"the peer is stopping\n", "line\n"} {
		w, aborted := httptest.NewRecorder(), any(nil)
		func() {
			defer func() { aborted = recover() }()
			d := &dashboard{feed: brokenLog{chunks: chunks}}
			d.wholeLog(w, httptest.NewRequest(http.MethodGet, "/ui/runs/run-1/log?as=text", nil), "run-1")
		}()
		err, _ := aborted.(error)
		if got := w.Body.String(); got != want || errors.Is(err, http.ErrAbortHandler) != (chunks > 0) {
			t.Errorf("%d chunks: got %q and the panic %v, want %q", chunks, got, aborted, want)
		}
	}
}

package ui

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// handingOver acknowledges writes until the leadership is transferred, and then for a time none.
type handingOver struct {
	holdfastv1.OperatorServiceClient
	away time.Duration
	back atomic.Pointer[time.Time] // when writes are acknowledged again
}

func (h *handingOver) Probe(
	ctx context.Context, _ *holdfastv1.ProbeRequest, _ ...grpc.CallOption,
) (*holdfastv1.ProbeResponse, error) {
	if at := h.back.Load(); at != nil && time.Now().Before(*at) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &holdfastv1.ProbeResponse{}, nil
}

func (h *handingOver) TransferLeadership(
	context.Context, *holdfastv1.TransferLeadershipRequest, ...grpc.CallOption,
) (*holdfastv1.TransferLeadershipResponse, error) {
	at := time.Now().Add(h.away)
	h.back.Store(&at)
	return &holdfastv1.TransferLeadershipResponse{From: "p1", To: "p2"}, nil
}

// TestDrillMeasures checks the longest time without an acknowledged write, also if none is
// acknowledged until the end.
func TestDrillMeasures(t *testing.T) {
	for away, want := range map[time.Duration]string{0: "5 ms", time.Minute: "2 s"} {
		synctest.Test(t, func(t *testing.T) {
			b := drillBody{}
			if err := b.measure(t.Context(), &handingOver{away: away}); err != nil {
				t.Fatal(err)
			}
			if b.Away != want || b.Led != "p2" || b.Acked < 100 {
				t.Errorf("away for %s: got %q to %s after %d writes, want %q", away, b.Away, b.Led, b.Acked, want)
			}
		})
	}
}

package client

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

func TestConsistencyMetadata(t *testing.T) {
	a := startPeer(t, &fakePeer{unary: func(ctx context.Context, _ int) error {
		return grpc.SetHeader(ctx, metadata.Pairs(HeaderIndex, "41"))
	}})
	c := dial(t, Config{Addrs: []string{a.addr}, Token: "s3cret"})
	ctx := testContext(t)
	stale := WithConsistency(ctx, Consistency{Stale: true})

	// The order matters: the client learns index 41 from the write.
	for _, tt := range []struct {
		name          string
		ctx           context.Context
		call          func(context.Context, *Client) error
		wantStale     []string
		wantMin       []string
		wantSeenAfter uint64
	}{
		{"stale read before any index", stale, get, []string{"stale"}, nil, 41},
		{"write", stale, register("m-1"), nil, nil, 41},
		{"linearizable read", ctx, get, nil, nil, 41},
		{"stale read after a write", stale, get, []string{"stale"}, []string{"41"}, 41},
		{"stale read of a later state", WithConsistency(ctx, Consistency{Stale: true, MinIndex: 50}), get,
			[]string{"stale"}, []string{"50"}, 41},
		{"an index alone", WithConsistency(ctx, Consistency{MinIndex: 7}), get, nil, []string{"7"}, 41},
	} {
		if err := tt.call(tt.ctx, c); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.wantStale, a.lastMeta(HeaderConsistency)); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", tt.name, HeaderConsistency, diff)
		}
		if diff := cmp.Diff(tt.wantMin, a.lastMeta(HeaderMinIndex)); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", tt.name, HeaderMinIndex, diff)
		}
		if got := c.Index(); got != tt.wantSeenAfter {
			t.Errorf("%s: seen index: got %d, want %d", tt.name, got, tt.wantSeenAfter)
		}
	}
	if diff := cmp.Diff([]string{"Bearer s3cret"}, a.lastMeta("authorization")); diff != "" {
		t.Errorf("authorization (-want +got):\n%s", diff)
	}
}

func TestSeenIndexNeverDecreases(t *testing.T) {
	p := &peers{}
	for _, v := range []string{"7", "nonsense", "3", "9", "8"} {
		p.observe(metadata.Pairs(HeaderIndex, v))
	}
	if got := p.seen.Load(); got != 9 {
		t.Errorf("seen index: got %d, want 9", got)
	}
}

package call

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// A delivery keeps its identity on the way to another peer, and when it is repeated: its commands
// have the same ids, and its secrets are the same.
func TestDelivery(t *testing.T) {
	first, err := NewDelivery(t.Context(), 7, func(time.Time) uint64 { return 3 })
	if err != nil {
		t.Fatal(err)
	}
	forwarded := ParseDelivery(metadata.Pairs(HeaderDelivery, first.Repeated().Header()))
	if forwarded == nil {
		t.Fatalf("got no delivery in %q", first.Repeated().Header())
	}
	var ids [2][]string
	for i, d := range []*Delivery{first, forwarded} {
		for range 2 {
			c := &internalv1.Command{Op: &internalv1.Command_NoOp{NoOp: &internalv1.NoOp{}}}
			DeliveryFrom(d.With(t.Context())).Mark(c)()
			ids[i] = append(ids[i], c.GetDelivery().GetId())
			if got := c.GetDelivery(); got.GetSince() != 7 || got.GetAgain() != (i == 1) {
				t.Errorf("delivery %d: got %v, want since index 7, again: %t", i, got, i == 1)
			}
		}
	}
	if diff := cmp.Diff(ids[0], ids[1]); diff != "" || ids[0][0] == ids[0][1] {
		t.Errorf("ids of two commands: got %q, then (-first +repeated):\n%s", ids[0], diff)
	}
	a, b := Secret(first.With(t.Context()), "x", 16), Secret(forwarded.With(t.Context()), "x", 16)
	if !bytes.Equal(a, b) || bytes.Equal(a, Secret(first.With(t.Context()), "y", 16)) ||
		bytes.Equal(Secret(t.Context(), "x", 16), Secret(t.Context(), "x", 16)) {
		t.Error("got secrets that do not depend on the delivery and the label alone")
	}
}

// A caller that names its call gets the same delivery from another peer, since an index before its
// first try.
func TestNamedCall(t *testing.T) {
	before := func(at time.Time) uint64 {
		if ago := time.Since(at); ago < 5*time.Second || ago > time.Minute {
			t.Errorf("got the index of %v ago, want that of the first try", ago)
		}
		return 3
	}
	const id = "AAECAwQFBgcICQoLDA0ODw"
	for _, tt := range []struct {
		value string
		since uint64
		again bool
		valid bool
	}{
		{id + ";0", 7, false, true}, {id + ";5000", 3, true, true}, {id, 0, false, false}, {id + ";-1", 0, false, false},
		{"AAEC;0", 0, false, false},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(HeaderCall, tt.value))
		d, err := NewDelivery(ctx, 7, before)
		if (err == nil) != tt.valid {
			t.Errorf("%q: got %v, want valid: %t", tt.value, err, tt.valid)
		}
		if err == nil && (d.since != tt.since || d.again != tt.again) {
			t.Errorf("%q: got since %d, again %t, want %d, %t", tt.value, d.since, d.again, tt.since, tt.again)
		}
	}
}

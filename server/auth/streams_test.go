package auth

import (
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestOpenStreams opens streams until they are refused, and checks that an ended one makes room.
func TestOpenStreams(t *testing.T) {
	for _, tt := range []struct {
		role      holdfastv1.Role_Value
		perSecond float64
		try, want int
	}{
		{holdfastv1.Role_VIEWER, 1000, 1500, maxUserStreams},
		{holdfastv1.Role_ADMIN, 1000, 1500, maxUserStreams},
		{holdfastv1.Role_AGENT, 1000, 100, maxAgentStreams},
		{holdfastv1.Role_POOL_AGENT, 1000, 6000, maxSharedStreams},
		{holdfastv1.Role_VIEWER, -1, 1500, 1500}, // no limits
	} {
		l := newLimits(tt.perSecond)
		id := &holdfastv1.Identity{Principal: "token:x", Role: tt.role, Method: "token"}
		var ends []func()
		for range tt.try {
			end, refusal := l.open(id)
			switch {
			case refusal == nil:
				ends = append(ends, end)
			case refusal.Reason != ReasonStreamLimit || refusal.Retry == 0:
				t.Fatalf("%v: got %v", tt.role, refusal)
			}
		}
		if len(ends) != tt.want {
			t.Errorf("%v at %g: got %d streams, want %d", tt.role, tt.perSecond, len(ends), tt.want)
		}
		if _, refusal := l.open(&holdfastv1.Identity{Principal: "token:y", Role: tt.role}); refusal != nil {
			t.Errorf("%v: another caller is refused: %v", tt.role, refusal)
		}
		ends[0]()
		if _, refusal := l.open(id); refusal != nil {
			t.Errorf("%v: refused after a stream has ended: %v", tt.role, refusal)
		}
	}
}

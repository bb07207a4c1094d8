package pool

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestHeartbeatsAreNoChanges checks that a watched pool is printed again when its free memory
// changes, and not for what each heartbeat changes.
func TestHeartbeatsAreNoChanges(t *testing.T) {
	a := &holdfastv1.Pool{PoolId: "pool-1", AvailableVramGb: 8, Gpus: []*holdfastv1.Gpu{{Id: 1}}}
	b := proto.CloneOf(a)
	b.LastHeartbeat, b.UptimeSeconds, b.Gpus[0].TemperatureCelsius = timestamppb.Now(), 99, proto.Float64(70)
	if !proto.Equal(steadyPool(a), steadyPool(b)) {
		t.Error("heartbeat without a change: got another line of the pool")
	}
	b.AvailableVramGb = 4
	if proto.Equal(steadyPool(a), steadyPool(b)) {
		t.Error("less free VRAM: got no line of the pool")
	}
}

package propose

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/guard"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestGuardEncoding limits the allocations of encoding 64 commands into one entry. Each command
// needs its bytes, its place in the queue and two for its answer. The rest is for the growing
// queue, and the entry with its parts.
func TestGuardEncoding(t *testing.T) {
	b := newBatcher(nil, nil, nil)
	var cmds []*internalv1.Command
	for i := range 64 {
		cmds = append(cmds, &internalv1.Command{Time: timestamppb.Now(), Principal: "bench",
			Op: &internalv1.Command_StartRun{StartRun: &internalv1.StartRun{
				RunId: fmt.Sprintf("%08x", i), MachineId: "m-1", RequestId: "request", Type: "REPAVE"}}})
	}
	got := testing.AllocsPerRun(100, func() {
		for _, c := range cmds {
			data, err := proto.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			b.add(data)
		}
		if batch, data := b.take(); len(batch) != len(cmds) || len(data) != cap(data) {
			t.Fatalf("got %d commands in an entry of %d bytes with capacity %d", len(batch), len(data), cap(data))
		}
	})
	guard.Check(t, "batch.64.allocs", got)
}

// Abandoned commands in the queue do not delay those behind them.
func TestAbandonedCommandsAreSkipped(t *testing.T) {
	b := newBatcher(nil, nil, nil)
	for range maxBatch + 1 {
		b.add([]byte("abandoned")).state.Store(abandoned)
	}
	last := b.add([]byte("wanted"))
	if batch, _ := b.take(); len(batch) != 1 || batch[0] != last {
		t.Errorf("got %d commands, want the last one", len(batch))
	}
	if batch, data := b.take(); len(batch) != 0 || len(data) != 0 || b.waiting() != 0 {
		t.Errorf("got %d commands of an empty queue, want 0", len(batch))
	}
}

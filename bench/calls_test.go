package bench

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/bench/contest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestMachinePoolTake(t *testing.T) {
	s := &machinePool{made: 2}
	var got []string
	for range 3 {
		id, err := s.take()
		if err != nil && !errors.Is(err, contest.ErrEnough) {
			t.Fatal(err)
		}
		got = append(got, id)
	}
	if diff := cmp.Diff([]string{"b-0000000", "b-0000001", ""}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestReceipts checks that each watcher counts once for the current event, and not for others.
func TestReceipts(t *testing.T) {
	of := func(machine string, phase holdfastv1.Run_Phase) *holdfastv1.RunEvent {
		return &holdfastv1.RunEvent{Snapshot: &holdfastv1.Run{MachineId: machine, Phase: phase}}
	}
	c := &receipts{}
	all := c.begin("a", 2)
	for _, ev := range []*holdfastv1.RunEvent{of("b", holdfastv1.Run_PENDING), of("a", holdfastv1.Run_PENDING),
		of("a", holdfastv1.Run_RUNNING)} {
		c.receive(ev)
	}
	select {
	case <-all:
		t.Fatal("got all watchers after one of two")
	default:
	}
	c.receive(of("a", holdfastv1.Run_PENDING))
	<-all
	if len(c.latencies) != 2 {
		t.Errorf("got %d notified watchers, want 2", len(c.latencies))
	}
}

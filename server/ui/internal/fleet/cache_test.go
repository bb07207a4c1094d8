package fleet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// slowMachines returns three machines after a second.
type slowMachines struct {
	holdfastv1.MachineServiceClient
	asked int
}

func (s *slowMachines) ListMachines(
	ctx context.Context, _ *holdfastv1.ListMachinesRequest, _ ...grpc.CallOption,
) (*holdfastv1.ListMachinesResponse, error) {
	s.asked++
	select {
	case <-time.After(time.Second):
		return &holdfastv1.ListMachinesResponse{Machines: make([]*holdfastv1.Machine, 3)}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestCountOutlivesCaller checks that callers that wait for a count get it even if the first caller
// has disconnected.
func TestCountOutlivesCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, who := NewCache(time.Now), &slowMachines{}, &holdfastv1.Identity{}
		first, leave := context.WithCancel(t.Context())
		go func() { _, _ = s.Of(first, who, c) }()
		synctest.Wait()
		var got *Counts
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			got, err = s.Of(t.Context(), who, c)
		}()
		synctest.Wait()
		leave()
		<-done
		if err != nil || got.Total != 3 || c.asked != 1 {
			t.Errorf("got %v, %v after %d counts, want 3 machines after one", got, err, c.asked)
		}
	})
}

// TestScopesAreApart checks that users of different pools never share counts.
func TestScopesAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := NewCache(time.Now), &slowMachines{}
		for _, pools := range [][]string{nil, {"a", "b"}, {"a b"}, {"a"}} {
			if _, err := s.Of(t.Context(), &holdfastv1.Identity{Pools: pools}, c); err != nil {
				t.Fatal(err)
			}
		}
		if c.asked != 4 {
			t.Errorf("got %d counts for 4 scopes", c.asked)
		}
	})
}

// TestNumStates checks that each effective state has a place in the counts.
func TestNumStates(t *testing.T) {
	if want := len(holdfastv1.EffectiveState_Value_name); NumStates != want {
		t.Errorf("got %d, want %d", NumStates, want)
	}
}

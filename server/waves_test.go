package server

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/fleet"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
	"github.com/holdfast-metal/holdfast/server/internal/startrun"
	"github.com/holdfast-metal/holdfast/server/internal/waves"
)

// TestWaves starts a wave by a filter and later retries it on the machines that did not
// succeed.
func TestWaves(t *testing.T) {
	n := nodetest.New()
	for _, id := range []string{"m-1", "m-2", "x-1"} {
		n.Machine(t, id)
	}
	peer := &edge.Peer{Cluster: n, State: n.Peer}
	s, ctx := waves.New(peer, fleet.NewMachines(peer, testProviders()),
		startrun.New(peer, startrun.Config{}, testProviders())), testCtx(t)
	req := &holdfastv1.StartWaveRequest{RequestId: "w", Filter: `machine_id != "x-1"`, Type: "reboot"}
	req.ValidateOnly = true
	if w, err := s.StartWave(ctx, req); err != nil || w.GetTotal() != 2 || w.GetMaxParallel() != 10 {
		t.Errorf("validate only: got %v, %v, want 2 machines, 10 at a time", w, err)
	}
	if _, err := s.GetWave(ctx, &holdfastv1.GetWaveRequest{WaveId: "w"}); err == nil {
		t.Error("validate_only has started a wave")
	}
	req.ValidateOnly = false
	var proposed *holdfastv1.Wave
	n.Before = func(c *internalv1.Command) error {
		proposed = c.GetStartWave().GetWave()
		return nil
	}
	for range 2 { // the same request twice
		if w, err := s.StartWave(ctx, req); err != nil || w.GetType() != "REBOOT" {
			t.Fatalf("got %v, %v, want a wave", w, err)
		}
	}
	n.Before = nil
	if diff := cmp.Diff(fsm.CompleteWave(proposed), proposed, protocmp.Transform()); diff != "" {
		t.Errorf("proposed wave (-complete +got):\n%s", diff)
	}
	var refusal *fsm.Error
	if _, err := s.RetryWave(ctx, &holdfastv1.RetryWaveRequest{WaveId: "w"}); !errors.As(err, &refusal) ||
		refusal.Reason != "WAVE_ACTIVE" {
		t.Errorf("retry of an active wave: got %v, want WAVE_ACTIVE", err)
	}
	if _, err := s.CancelWave(ctx, &holdfastv1.CancelWaveRequest{WaveId: "w", Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	retry, err := s.RetryWave(ctx, &holdfastv1.RetryWaveRequest{WaveId: "w", RequestId: "w2", MaxParallel: 3})
	if err != nil || retry.GetRetryOf() != "w" || retry.GetMaxParallel() != 3 {
		t.Fatalf("got %v, %v, want a retry of w with 3 at a time", retry, err)
	}
	list, err := s.ListWaves(ctx, &holdfastv1.ListWavesRequest{Filter: fmt.Sprintf(
		"principal = %q AND (phase = RUNNING OR phase = STOPPING)", retry.GetPrincipal())})
	if err != nil || len(list.GetWaves()) != 1 || list.GetWaves()[0].GetWaveId() != "w2" {
		t.Errorf("got %v, %v, want w2 alone", list, err)
	}
	for machine, want := range map[string][]string{
		"": {"m-1 WAITING", "m-2 WAITING"}, "m-2": {"m-2 WAITING"}, "m-3": nil,
	} {
		w, err := s.GetWave(ctx, &holdfastv1.GetWaveRequest{WaveId: "w2", MachineId: machine})
		if err != nil || w.GetTotal() != 2 {
			t.Errorf("machine %q: got %v, %v, want a wave of 2 machines", machine, w, err)
		}
		var got []string
		for _, m := range w.GetMachines() {
			got = append(got, m.GetMachineId()+" "+m.GetState().String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("machine %q: machines (-want +got):\n%s", machine, diff)
		}
	}
}

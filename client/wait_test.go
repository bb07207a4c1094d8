package client

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestWaitRun(t *testing.T) {
	running := &holdfastv1.Run{RunId: "run-1", Revision: 5, Phase: holdfastv1.Run_RUNNING}
	failed := &holdfastv1.Run{RunId: "run-1", Revision: 9, Phase: holdfastv1.Run_FAILED}

	t.Run("running", func(t *testing.T) {
		var filter string
		a := startPeer(t, &fakePeer{run: running, watch: func(r *holdfastv1.WatchRunsRequest, s eventStream) error {
			filter = r.GetFilter()
			for _, run := range []*holdfastv1.Run{running, failed} {
				if err := s.Send(&holdfastv1.RunEvent{Cursor: run.GetRevision(), Snapshot: run}); err != nil {
					return err
				}
			}
			<-s.Context().Done()
			return s.Context().Err()
		}})
		run, err := dial(t, Config{Addrs: []string{a.addr}}).WaitRun(testContext(t), "run-1")
		if err != nil || run.GetPhase() != holdfastv1.Run_FAILED {
			t.Errorf("got %v (%v), want FAILED", run.GetPhase(), err)
		}
		if want := `run_id = "run-1"`; filter != want {
			t.Errorf("got filter %q, want %q", filter, want)
		}
	})
	t.Run("ended", func(t *testing.T) {
		a := startPeer(t, &fakePeer{run: failed})
		run, err := dial(t, Config{Addrs: []string{a.addr}}).WaitRun(testContext(t), "run-1")
		if err != nil || run.GetPhase() != holdfastv1.Run_FAILED {
			t.Errorf("got %v (%v), want FAILED", run.GetPhase(), err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		a := startPeer(t, &fakePeer{})
		if _, err := dial(t, Config{Addrs: []string{a.addr}}).WaitRun(testContext(t),
			"run-1"); status.Code(err) != codes.NotFound {
			t.Errorf("got %v, want NOT_FOUND", err)
		}
	})
	t.Run("canceled wait", func(t *testing.T) {
		ctx, cancel := context.WithCancel(testContext(t))
		a := startPeer(t, &fakePeer{run: running, watch: func(_ *holdfastv1.WatchRunsRequest, s eventStream) error {
			cancel()
			<-s.Context().Done()
			return s.Context().Err()
		}})
		run, err := dial(t, Config{Addrs: []string{a.addr}}).WaitRun(ctx, "run-1")
		if !errors.Is(err, context.Canceled) || run.GetPhase() != holdfastv1.Run_RUNNING {
			t.Errorf("got %v, %v, want RUNNING and context.Canceled", run.GetPhase(), err)
		}
	})
}

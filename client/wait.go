package client

import (
	"context"
	"fmt"
	"strconv"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Finished reports whether a run has ended. An ended run never changes.
func Finished(run *holdfastv1.Run) bool {
	switch run.GetPhase() {
	case holdfastv1.Run_SUCCEEDED, holdfastv1.Run_FAILED, holdfastv1.Run_CANCELED:
		return true
	}
	return false
}

// WaitRun blocks until the run has ended, in any phase, and returns it. If the context ends
// first, it returns the run as last seen (nil if never) and the context's error.
func (c *Client) WaitRun(ctx context.Context, runID string) (*holdfastv1.Run, error) {
	return c.ObserveRun(ctx, runID, func(*holdfastv1.RunEvent) error { return nil })
}

// ObserveRun is like WaitRun but also calls f for the run's initial state and for every
// transition.
func (c *Client) ObserveRun(
	ctx context.Context, runID string, f func(*holdfastv1.RunEvent) error,
) (*holdfastv1.Run, error) {
	// Fail if the run does not exist: a watch would wait for it forever.
	last, err := c.Runs().GetRun(ctx, &holdfastv1.GetRunRequest{RunId: runID})
	if err != nil {
		return nil, err
	}
	if Finished(last) {
		return last, f(&holdfastv1.RunEvent{Ts: last.GetFinishedAt(), Snapshot: last})
	}
	err = c.WatchRuns(ctx, "run_id = "+strconv.Quote(runID), 0, func(e *holdfastv1.RunEvent) error {
		last = e.GetSnapshot()
		if err := f(e); err != nil {
			return err
		}
		if Finished(last) {
			return errEnded
		}
		return nil
	})
	if err != nil {
		return last, fmt.Errorf("watch run %s: %w", runID, err)
	}
	return last, nil
}

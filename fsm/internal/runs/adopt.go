package runs

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// leastAllowance is the least time that an attempt has for new leaders, besides its timeout. Each
// of them gives the attempt new time to observe, so without a bound an attempt would never end if
// the leader changed more often than that.
const leastAllowance = 5 * time.Minute

// adopt records that a later leader continues an open attempt, and until when, by the recorded
// time. Behind the deadline no leader was there to end the attempt, so that time is added to its
// limit. Once the limit has passed, new leaders only end the attempt.
func adopt(
	t *core.Tx, run *holdfastv1.Run, step *holdfastv1.StepStatus, a *holdfastv1.Attempt, c *internalv1.BeginAttempt,
) {
	a.Epochs = append(slices.Clip(a.Epochs), t.Command.GetEpoch())
	if a.GetEndingSince() != nil {
		return
	}
	now, limit := t.Now.AsTime(), limitOf(run, step, a)
	by, deadline := a.GetEndsBy().AsTime(), a.GetDeadline().AsTime()
	if a.GetEndsBy() == nil {
		deadline = a.GetStartedAt().AsTime().Add(limit)
		by = deadline.Add(max(limit/2, leastAllowance))
	}
	by = by.Add(max(0, now.Sub(deadline)))
	if deadline = now.Add(timeOf(t, c)); deadline.After(by) {
		deadline = by
	}
	a.EndsBy, a.Deadline = timestamppb.New(by), timestamppb.New(deadline)
	if !now.Before(by) || run.GetCancelRequestedAt() != nil {
		a.EndingSince = t.Now
	}
}

// limitOf returns the time that an attempt has under one leader.
func limitOf(run *holdfastv1.Run, step *holdfastv1.StepStatus, a *holdfastv1.Attempt) time.Duration {
	if limit := time.Duration(step.GetTimeoutSeconds()) * time.Second; limit > 0 {
		return limit
	}
	if run.GetDeadline() == nil {
		return 0
	}
	return max(0, run.GetDeadline().AsTime().Sub(a.GetStartedAt().AsTime()))
}

// timeOf returns how long a leader drives an attempt. The leader's clock may not be that of the
// record, so its deadline is compared with its own time.
func timeOf(t *core.Tx, c *internalv1.BeginAttempt) time.Duration {
	if c.GetDeadline() == nil {
		return 0
	}
	now := t.Now
	if own := c.GetNextActionAt(); own != nil {
		now = own
	}
	return max(0, c.GetDeadline().AsTime().Sub(now.AsTime()))
}

// shownDeadline returns the deadline of a run whose attempt begins or is adopted: that of its
// leader, unless the attempt must end earlier.
func shownDeadline(a *holdfastv1.Attempt, c *internalv1.BeginAttempt) *timestamppb.Timestamp {
	if by := a.GetEndsBy(); by != nil && c.GetDeadline() != nil && lifecycle.Before(by, c.GetDeadline()) {
		return by
	}
	return c.GetDeadline()
}

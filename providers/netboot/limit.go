package netboot

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// limit is the deadline of a stage: its own, or that of the step if that is sooner.
type limit struct {
	since  time.Time
	most   time.Duration
	step   time.Duration // limit of the step for all stages, from the opening of the session
	ofStep bool
}

// limited returns the limit of a stage that began at since. ctx is that of the attempt. When a step
// times out, the error does not explain why. So the last stage ends ten seconds before the step, or
// a tenth of the step's time, with an error that names what was missing and where to check.
func limited(ctx context.Context, i *holdfastv1.Install, since *timestamppb.Timestamp, most time.Duration) limit {
	l := limit{since: since.AsTime(), most: most}
	ends, ok := ctx.Deadline()
	if !ok {
		return l
	}
	all := ends.Sub(i.GetOpenedAt().AsTime())
	ends = ends.Add(-min(10*time.Second, all/10))
	if left := ends.Sub(l.since); left < most {
		l.most, l.step, l.ofStep = left, all, true
	}
	return l
}

// over returns how long the stage has lasted if it has exceeded its limit, else "".
func (l limit) over(now time.Time) string {
	switch in := now.Sub(l.since); {
	case in <= l.most:
		return ""
	case l.ofStep:
		return fmt.Sprintf("%s (and the step has no more than %s for all of it: timeout_seconds)",
			in.Round(time.Second), l.step.Round(time.Second))
	}
	return l.most.String()
}

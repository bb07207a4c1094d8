package netboot

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// limit is when a stage is over: by its own time, or by that of the step, whichever is sooner.
type limit struct {
	since  time.Time
	most   time.Duration
	step   time.Duration // since the session was opened; what the step gives all stages
	ofStep bool
}

// limited returns the limit of what goes on since a time. The context is that of the attempt. A
// step that ends says no more than that it has; so its last stage is over ten seconds before, or a
// tenth of what the step has, and says what was waited for and where to look.
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

// over words how long was waited, once that was too long; "" before.
func (l limit) over(now time.Time) string {
	switch in := now.Sub(l.since); {
	case in <= l.most:
		return ""
	case l.ofStep:
		return fmt.Sprintf("%s (and the step has no more than %s for all of it: timeout_seconds)", in.Round(time.Second), l.step.Round(time.Second))
	}
	return l.most.String()
}

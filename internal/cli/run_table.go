package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/progress"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func runKind() kind[*holdfastv1.Run] {
	return kind[*holdfastv1.Run]{
		noun: "run", list: "runs",
		name:   (*holdfastv1.Run).GetRunId,
		header: []string{"RUN", "MACHINE", "TYPE", "PHASE", "STEP", "DONE", "TOOK", "CREATED"},
		wide:   []string{"PLAN", "REQUEST", "QUEUE", "STARTED BY", "WHY"},
		row: func(r *holdfastv1.Run, now time.Time, wide bool) []render.Text {
			row := []render.Text{
				plain(r.GetRunId()),
				plain(r.GetMachineId()),
				plain(r.GetType()),
				render.State(enum(r.GetPhase())),
				plain(r.GetCurrentStep()),
				plain(progress.Done(r)),
				plain(progress.Took(now, r.GetStartedAt(), r.GetFinishedAt())),
				plain(render.Ago(now, at(r.GetCreatedAt()))),
			}
			if wide {
				row = append(row, plain(r.GetPlanId()), plain(r.GetRequestId()),
					plain(number(uint64(max(r.GetQueuePosition(), 0)))),
					plain(r.GetPrincipal()), plain(progress.Why(r, now)))
			}
			return row
		},
	}
}

func runSteps(r *holdfastv1.Run, now time.Time) *render.Table {
	t := render.NewTable("STEP", "KIND", "STATE", "ATTEMPTS", "TOOK", "MESSAGE")
	for _, s := range r.GetSteps() {
		message := s.GetMessage()
		if s.GetName() == r.GetCurrentStep() {
			message = first(progress.Why(r, now), message)
		}
		t.Row(plain(s.GetName()), plain(s.GetKind()), render.State(enum(s.GetState())), plain(progress.Attempts(s)),
			plain(progress.Took(now, s.GetStartedAt(), s.GetFinishedAt())), plain(message))
	}
	return t
}

// number formats a count; 0 returns "".
func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// params parses --param, which is repeatable.
func params(values []string) (map[string]string, error) {
	if len(values) == 0 {
		return nil, nil
	}
	m, err := pairs("param", values)
	if err != nil {
		return nil, fmt.Errorf("%w, e.g. image=ubuntu-24.04", err)
	}
	return m, nil
}

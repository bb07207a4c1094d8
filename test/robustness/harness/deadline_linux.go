package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// deadlineSlack is the time that an attempt may lose before it records its start.
const deadlineSlack = 3 * time.Second

// noEarlyEnd checks that no attempt of the latest runs was given up before its timeout. Its
// error contains the elapsed time, measured by a clock that no fault sets, unlike its
// timestamps.
func (c *Cluster) noEarlyEnd(ctx context.Context) error {
	page, err := c.probe.Runs().ListRuns(ctx, &holdfastv1.ListRunsRequest{PageSize: 1000})
	if err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	var errs []error
	for _, r := range page.GetRuns() {
		for _, s := range r.GetSteps() {
			for _, a := range s.GetAttempts() {
				if err := endedEarly(s, a); err != nil && len(errs) < 5 {
					errs = append(errs, fmt.Errorf("run %s of %s, step %s, attempt %d: %w", r.GetRunId(),
						r.GetMachineId(), s.GetName(), a.GetNumber(), err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

func endedEarly(s *holdfastv1.StepStatus, a *holdfastv1.Attempt) error {
	_, rest, ok := strings.Cut(a.GetError(), "gave up after ")
	if !ok || a.GetErrorClass() != "timeout" {
		return nil
	}
	word, _, _ := strings.Cut(rest, " ")
	took, err := time.ParseDuration(word)
	if err != nil {
		return fmt.Errorf("read %q: %w", a.GetError(), err)
	}
	if whole := time.Duration(s.GetTimeoutSeconds()) * time.Second; took < whole-deadlineSlack {
		return fmt.Errorf("it was given up after %s of %s: %s", took, whole, a.GetError())
	}
	return nil
}

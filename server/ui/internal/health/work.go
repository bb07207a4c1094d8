package health

import (
	"fmt"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"

	"github.com/holdfast-metal/holdfast/internal/describe"
)

func (f Facts) urgent() []string {
	if f.Urgent == 1 {
		return []string{"1 machine has an urgent issue"}
	}
	return when(f.Urgent > 0, "%s have an urgent issue", describe.Number(f.Urgent, "machine"))
}

func (f Facts) held() (all []string) {
	for _, p := range f.Plans {
		if b := p.GetBrake(); b != nil {
			all = append(all, fmt.Sprintf("%s: %s on %s", p.GetPlanId(), b.GetFailure(),
				describe.Number(b.GetMachines(), "machine")))
		}
	}
	return all
}

// overdue returns the runs that wait for longWait, or run longer than all their steps may.
func (f Facts) overdue() (all []string) {
	for _, r := range f.Active {
		since, most := r.GetCreatedAt(), longWait
		if r.GetPhase() == holdfastv1.Run_RUNNING {
			since, most = r.GetStartedAt(), 0
			for _, s := range r.GetSteps() {
				most += time.Duration(s.GetTimeoutSeconds()) * time.Second
			}
		}
		if age := f.Now.Sub(since.AsTime()); most > 0 && age > most && !r.GetConcurrent() { // a console has no time limit
			all = append(all, fmt.Sprintf("%s on %s, for %s", r.GetRunId(), r.GetMachineId(), age.Round(time.Minute)))
		}
	}
	return atMost(all, 5)
}

// atMost shortens a list.
func atMost(all []string, n int) []string {
	if len(all) <= n {
		return all
	}
	return append(all[:n:n], fmt.Sprintf("and %d more", len(all)-n))
}

func (f Facts) failing() []string {
	ended, failed := 0, 0
	for _, r := range f.Recent {
		if at := r.GetFinishedAt(); at == nil || f.Now.Sub(at.AsTime()) > recentRuns {
			continue
		}
		ended++
		if r.GetPhase() == holdfastv1.Run_FAILED {
			failed++
		}
	}
	return when(failed >= manyFailed && failed*5 > ended, "%d of %d runs failed", failed, ended)
}

func (f Facts) webhooks() (all []string) {
	for _, w := range f.Webhooks {
		if w.GetFailures() > 0 && w.GetWaiting() > 0 && !w.GetDisabled() {
			all = append(all, fmt.Sprintf("%s: failed tries: %d, waiting events: %d: %s",
				w.GetName(), w.GetFailures(), w.GetWaiting(), w.GetLastError()))
		}
	}
	return all
}

// clock compares the newest run's times, which are the leader's, with the clock of this peer.
func (f Facts) clock() []string {
	if len(f.Recent) == 0 {
		return nil
	}
	ahead := f.Recent[0].GetCreatedAt().AsTime().Sub(f.Now)
	return when(ahead > aheadOfPeer, "by %s", ahead.Round(time.Second))
}

package runs

import (
	"slices"

	"github.com/holdfast-metal/holdfast/fsm"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// queue contains the runs that have not begun. It is first come, first served, except
// that runs are passed over if their plan is held or their provider is at its limit of
// active runs. So runs are queued by plan and provider.
type queue struct {
	lines map[line][]waiting
	came  int                // number of runs that were ever added
	busy  map[string]int     // number of running runs, by provider
	alike map[fsm.Cohort]int // number of running runs, by cohort
}

// line is the key of runs that begin or wait for the same reasons.
type line struct {
	cohort   fsm.Cohort
	provider string
}

type waiting struct {
	run   *holdfastv1.Run
	place int
}

func newQueue() *queue {
	return &queue{lines: map[line][]waiting{}, busy: map[string]int{}, alike: map[fsm.Cohort]int{}}
}

// add puts a run at the end of its line.
func (q *queue) add(run *holdfastv1.Run, provider string) {
	at := line{fsm.CohortOf(run), provider}
	q.lines[at] = append(q.lines[at], waiting{run, q.came})
	q.came++
}

// giveBack returns a run that could not begin to its former position.
func (q *queue) giveBack(w waiting, provider string) {
	at := line{fsm.CohortOf(w.run), provider}
	i, _ := slices.BinarySearchFunc(q.lines[at], w.place, func(w waiting, place int) int { return w.place - place })
	q.lines[at] = slices.Insert(q.lines[at], i, w)
}

// remove removes a run that ended before it began.
func (q *queue) remove(run *holdfastv1.Run) {
	for at, runs := range q.lines {
		i := slices.IndexFunc(runs, func(w waiting) bool { return w.run.GetRunId() == run.GetRunId() })
		if at.cohort.Plan == run.GetPlanId() && i >= 0 {
			q.set(at, slices.Delete(runs, i, i+1))
			return
		}
	}
}

func (q *queue) set(at line, runs []waiting) {
	if q.lines[at] = runs; len(runs) == 0 {
		delete(q.lines, at)
	}
}

// next removes and returns the oldest run that may begin, and counts it as running; done
// reverses that. The run is nil if none may begin.
func (q *queue) next(
	mayBegin func(c fsm.Cohort, running int) bool, most func(provider string) int,
) (next waiting, provider string) {
	var best *line
	for at, runs := range q.lines {
		if best != nil && q.lines[*best][0].place < runs[0].place {
			continue
		}
		if n := most(at.provider); n > 0 && q.busy[at.provider] >= n || !mayBegin(at.cohort, q.alike[at.cohort]) {
			continue
		}
		best = &at
	}
	if best == nil {
		return waiting{}, ""
	}
	runs := q.lines[*best]
	q.set(*best, runs[1:])
	q.work(best.cohort, best.provider)
	return runs[0], best.provider
}

// work counts a run that begins.
func (q *queue) work(c fsm.Cohort, provider string) {
	q.busy[provider]++
	q.alike[c]++
}

// done reverses work when a run has ended.
func (q *queue) done(c fsm.Cohort, provider string) {
	if q.busy[provider]--; q.busy[provider] <= 0 {
		delete(q.busy, provider)
	}
	if q.alike[c]--; q.alike[c] <= 0 {
		delete(q.alike, c)
	}
}

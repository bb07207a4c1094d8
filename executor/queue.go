package executor

import (
	"slices"

	"github.com/holdfast-metal/holdfast/fsm"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// queue is the runs that have not begun: first come, first served, but for those whose plan is held
// or whose provider has as many runs at work as it may. They let others pass, so they stand in
// lines of their own.
type queue struct {
	lines map[line][]waiting
	came  int                // how many ever did
	busy  map[string]int     // running runs, by provider
	alike map[fsm.Cohort]int // running runs, by what their plan limits
}

// line is what runs have in common that begin, or wait, for the same reasons.
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

// giveBack puts a run that could not begin back to where it stood.
func (q *queue) giveBack(w waiting, provider string) {
	at := line{fsm.CohortOf(w.run), provider}
	i, _ := slices.BinarySearchFunc(q.lines[at], w.place, func(w waiting, place int) int { return w.place - place })
	q.lines[at] = slices.Insert(q.lines[at], i, w)
}

// remove takes a run out that ended without having begun.
func (q *queue) remove(run *holdfastv1.Run) {
	for at, runs := range q.lines {
		if i := slices.IndexFunc(runs, func(w waiting) bool { return w.run.GetRunId() == run.GetRunId() }); at.cohort.Plan == run.GetPlanId() && i >= 0 {
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

// next takes the run out that came first among those that may begin, and counts it as its
// provider's; its run is nil if none may. Its provider is given back with done.
func (q *queue) next(mayBegin func(c fsm.Cohort, atWork int) bool, most func(provider string) int) (next waiting, provider string) {
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

// done takes back what work has counted.
func (q *queue) done(c fsm.Cohort, provider string) {
	if q.busy[provider]--; q.busy[provider] <= 0 {
		delete(q.busy, provider)
	}
	if q.alike[c]--; q.alike[c] <= 0 {
		delete(q.alike, c)
	}
}

package runs

import (
	"cmp"
	"slices"

	"github.com/holdfast-metal/holdfast/executor/turnstile"
	"github.com/holdfast-metal/holdfast/fsm"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// queue contains the runs that have not begun. Urgent runs come first. Otherwise it is first
// come, first served, except that runs are passed over if their plan is held, their provider is
// at its limit of active runs, or the turnstile has no place for their class. So runs are queued
// by plan, provider and class.
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
	class    turnstile.Class
}

type waiting struct {
	run   *holdfastv1.Run
	place int
}

func newQueue() *queue {
	return &queue{lines: map[line][]waiting{}, busy: map[string]int{}, alike: map[fsm.Cohort]int{}}
}

// add puts a run at the end of a line.
func (q *queue) add(run *holdfastv1.Run, at line) {
	q.lines[at] = append(q.lines[at], waiting{run, q.came})
	q.came++
}

// giveBack returns a run that could not begin to its former position.
func (q *queue) giveBack(w waiting, at line) {
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

// next returns the line whose first run is the next to begin, of the lines that may begin a run
// besides those of the same cohort that are running.
func (q *queue) next(mayBegin func(at line, running int) bool, most func(provider string) int) (next line, ok bool) {
	for at, runs := range q.lines {
		if ok && !q.before(at.class, runs[0], next) {
			continue
		}
		if n := most(at.provider); n > 0 && q.busy[at.provider] >= n || !mayBegin(at, q.alike[at.cohort]) {
			continue
		}
		next, ok = at, true
	}
	return next, ok
}

// before reports whether a run comes before the first one of a line.
func (q *queue) before(c turnstile.Class, w waiting, other line) bool {
	return cmp.Or(cmp.Compare(c, other.class), cmp.Compare(w.place, q.lines[other][0].place)) < 0
}

// take removes and returns the first run of a line, and counts it as running; done reverses that.
func (q *queue) take(at line) waiting {
	runs := q.lines[at]
	q.set(at, runs[1:])
	q.work(at)
	return runs[0]
}

// work counts a run that begins.
func (q *queue) work(at line) {
	q.busy[at.provider]++
	q.alike[at.cohort]++
}

// done reverses work when a run has ended.
func (q *queue) done(at line) {
	if q.busy[at.provider]--; q.busy[at.provider] <= 0 {
		delete(q.busy, at.provider)
	}
	if q.alike[at.cohort]--; q.alike[at.cohort] <= 0 {
		delete(q.alike, at.cohort)
	}
}

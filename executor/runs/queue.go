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
	lines  map[line][]waiting
	came   int                // number of runs that were ever added
	busy   map[string]int     // number of running runs, by provider
	alike  map[fsm.Cohort]int // number of running runs, by cohort; without a pool: of all pools
	tenant map[share]int      // number of running runs of a pool, by provider; without a provider: of all
}

// share is the part of a limit of active runs that a pool uses.
type share struct{ pool, provider string }

// poolShare returns the active runs that one pool may have of a limit. The rest is left for other
// pools, because runs on hardware that does not answer can last for hours.
func poolShare(most int) int { return max(1, most-most/4) }

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
	return &queue{lines: map[line][]waiting{}, busy: map[string]int{}, alike: map[fsm.Cohort]int{},
		tenant: map[share]int{}}
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
		if ok && !q.before(at, runs[0], next) {
			continue
		}
		if n := most(at.provider); n > 0 && (q.busy[at.provider] >= n || q.greedy(at, at.provider, n)) ||
			!mayBegin(at, q.alike[at.cohort]) {
			continue
		}
		next, ok = at, true
	}
	return next, ok
}

// inFleet returns the number of running runs of a line's plan and image in all pools.
func (q *queue) inFleet(at line) int {
	at.cohort.Pool = ""
	return q.alike[at.cohort]
}

// greedy reports whether the pool of a line has its share of a limit of active runs. Machines in no
// pool have no share: they belong to the operators of the fleet.
func (q *queue) greedy(at line, provider string, most int) bool {
	pool := at.cohort.Pool
	return pool != "" && q.tenant[share{pool, provider}] >= poolShare(most)
}

// before reports whether the first run of a line comes before that of another one. Of the runs of a
// class, those of the pool with the fewest active runs come first, so that a pool with many runs
// does not delay the others.
func (q *queue) before(at line, w waiting, other line) bool {
	active := func(l line) int { return q.tenant[share{pool: l.cohort.Pool}] }
	turn := 0
	if at.cohort.Pool != other.cohort.Pool {
		turn = cmp.Compare(active(at), active(other))
	}
	return cmp.Or(cmp.Compare(at.class, other.class), turn, cmp.Compare(w.place, q.lines[other][0].place)) < 0
}

// take removes and returns the first run of a line, and counts it as running; done reverses that.
func (q *queue) take(at line) waiting {
	runs := q.lines[at]
	q.set(at, runs[1:])
	q.work(at)
	return runs[0]
}

// work counts a run that begins.
func (q *queue) work(at line) { q.count(at, 1) }

// done reverses work when a run has ended.
func (q *queue) done(at line) { q.count(at, -1) }

func (q *queue) count(at line, by int) {
	fleet := at.cohort
	fleet.Pool = ""
	add(q.busy, at.provider, by)
	add(q.alike, at.cohort, by)
	if fleet != at.cohort {
		add(q.alike, fleet, by)
	}
	add(q.tenant, share{at.cohort.Pool, at.provider}, by)
	if at.provider != "" {
		add(q.tenant, share{pool: at.cohort.Pool}, by)
	}
}

// add adds to a counter, and forgets it at zero.
func add[K comparable](counts map[K]int, key K, by int) {
	if counts[key] += by; counts[key] <= 0 {
		delete(counts, key)
	}
}

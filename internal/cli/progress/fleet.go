package progress

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	// few is the maximum number of runs that are shown one by one. More are counted, because a
	// thousand scrolling lines are unreadable.
	few = 20
	// kinds is the number of kinds of failures shown; named is the number of machines named for
	// each.
	kinds, named = 5, 3
)

// fleet counts ended runs.
type fleet struct {
	ended    map[string]holdfastv1.Run_Phase
	failures map[string]*failure // by step and reason
}

// failure is a kind of failure that runs have in common.
type failure struct {
	what     string
	machines []string
	last     string // the message of the last one
}

func newFleet() fleet {
	return fleet{ended: map[string]holdfastv1.Run_Phase{}, failures: map[string]*failure{}}
}

// add counts an ended run. It reports whether the run is new: a restarted watch sends runs
// again.
func (f *fleet) add(r *holdfastv1.Run, now time.Time) bool {
	if _, known := f.ended[r.GetRunId()]; known {
		return false
	}
	f.ended[r.GetRunId()] = r.GetPhase()
	if r.GetPhase() != holdfastv1.Run_FAILED {
		return true
	}
	what := cmp.Or(r.GetError().GetReason(), "failed")
	if step := r.GetError().GetStep(); step != "" {
		what = step + ": " + what
	}
	if f.failures[what] == nil {
		f.failures[what] = &failure{what: what}
	}
	f.failures[what].machines = append(f.failures[what].machines, r.GetMachineId())
	f.failures[what].last = Why(r, now)
	return true
}

// lines returns the counts, the steps of the active runs, and the failures.
func (f *fleet) lines(active []*holdfastv1.Run) []render.Line {
	phases, steps := map[holdfastv1.Run_Phase]int{}, map[string]int{}
	for _, p := range f.ended {
		phases[p]++
	}
	for _, r := range active {
		phases[r.GetPhase()]++
		if r.GetPhase() != holdfastv1.Run_PENDING && r.GetCurrentStep() != "" {
			steps[r.GetCurrentStep()]++
		}
	}
	all := len(f.ended) + len(active)
	head := render.Line{render.T(describe.Number(all, "run"), render.Bold), text("  " + bar(len(f.ended), all))}
	for _, p := range slices.Sorted(maps.Keys(phases)) {
		head = append(head, text(fmt.Sprintf("  %d ", phases[p])), render.State(p.String()))
	}
	lines := []render.Line{head}
	if len(steps) > 0 {
		at := render.Line{text("at work on")}
		names := slices.SortedFunc(maps.Keys(steps), func(a,
			b string) int {
			return cmp.Or(steps[b]-steps[a], cmp.Compare(a, b))
		})
		for _, name := range names {
			at = append(at, text(fmt.Sprintf("  %s %d", name, steps[name])))
		}
		lines = append(lines, at)
	}
	return append(lines, f.failed()...)
}

// failed lists the failures, the most frequent first.
func (f *fleet) failed() []render.Line {
	all := slices.SortedFunc(maps.Values(f.failures), func(a, b *failure) int {
		return cmp.Or(len(b.machines)-len(a.machines), cmp.Compare(a.what, b.what))
	})
	var lines []render.Line
	rest := 0
	for i, one := range all {
		if i >= kinds {
			rest += len(one.machines)
			continue
		}
		who := strings.Join(one.machines[:min(len(one.machines), named)], ", ")
		if len(one.machines) > named {
			who += ", …"
		}
		lines = append(lines, render.Line{render.T(fmt.Sprintf("✗ %d × ", len(one.machines)), render.Red),
			text(one.what + "  " + who), render.T("  "+one.last, render.Faint)})
	}
	if rest > 0 {
		lines = append(lines, render.Line{render.T(fmt.Sprintf("✗ %d × otherwise", rest), render.Red)})
	}
	return lines
}

// bar shows the completed share.
func bar(done, all int) string {
	const cells = 20
	n := done * cells / max(all, 1)
	return strings.Repeat("█", n) + strings.Repeat("░", cells-n) + fmt.Sprintf(" %d %%", done*100/max(all, 1))
}

// slowest sorts the runs that have been at their step for longest first, because they may need
// attention. Waiting runs come last.
func slowest(runs []*holdfastv1.Run) []*holdfastv1.Run {
	since := func(r *holdfastv1.Run) time.Time {
		at := r.GetStartedAt()
		if s := Current(r); s.GetStartedAt() != nil {
			at = s.GetStartedAt()
		}
		return at.AsTime()
	}
	sorted := slices.Clone(runs)
	slices.SortStableFunc(sorted, func(a, b *holdfastv1.Run) int {
		if a, b := a.GetStartedAt() == nil, b.GetStartedAt() == nil; a != b {
			if a {
				return 1
			}
			return -1
		}
		return since(a).Compare(since(b))
	})
	return sorted
}

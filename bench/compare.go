package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/bench/gobench"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
)

// fsmTests is the name of the test binary of package fsm beside a build.
const fsmTests = "fsm.test"

// compareBuilds returns the benchmark that compares this build with another one.
func compareBuilds() benchmark {
	b := benchmark{
		name: "compare", short: "Compare this build with another one, in turn", apart: true,
		long: `Compare this build with another one, REF. make bench-compare REF=commit builds
both. The clusters of both run at the same time. This program makes the load for
both, in slices in turn (REF THIS, THIS REF, …), so that a slow moment of the
machine, and the driver, are the same for both.

  fsm       Go benchmarks of package fsm (--go-bench): time, bytes, allocations
  startrun  StartRun, by number of clients
  engine    a command that changes nothing, by number of clients
  reads     linearizable reads on a follower: without writes, with writes, and at
            1,000 reads a second with writes
  watch     from StartRun until all watchers of a follower have the event
  steps     from the end of a step to the begin of the next; a slice is --runs runs
  plan      a run of five steps by one client, from start to end

The table has the medians of both and the ratio THIS : REF: the median over the
rounds, and the spread from the least to the greatest. CPU is the processor time
of all peers an operation.`,
		example: `  make bench-compare REF=HEAD~3
  make bench-compare REF=main BENCH=fsm,startrun ARGS="--clients 64 --rounds 7"
  holdfast-bench compare --ref /tmp/other --only reads --slice 500ms`,
		flags: []string{"ref", "go-bench", "clients", "connections", "watchers", "runs", "rounds", "slice"},
		defaults: func(o *options) {
			o.rounds, o.slice, o.watchers, o.runs = 6, time.Second, 1000, 500
		},
		check: func(o *options) error {
			if o.ref == "" {
				return errors.New("set --ref to a directory with the other build, or run make bench-compare REF=commit")
			}
			return nil
		},
	}
	b.parts = []part{{"fsm", "Go benchmarks of package fsm", compareFSM}}
	for _, sc := range scenarios() {
		b.parts = append(b.parts, part{sc.name, sc.about, sc.compare})
	}
	return b
}

// compare runs the scenario on clusters of both builds.
func (sc scenario) compare(ctx context.Context, s *session) error {
	this, ref := *s, *s
	this.dir, ref.dir = filepath.Join(s.dir, "this"), filepath.Join(s.dir, "ref")
	ref.binary = filepath.Join(s.ref, "holdfast")
	return sc.in(ctx, &ref, localcluster.Config{}, func(ctx context.Context, theirs *lab, b []*contest.Contender) error {
		return sc.in(ctx, &this, localcluster.Config{}, func(ctx context.Context, ours *lab, a []*contest.Contender) error {
			for i := range a {
				if err := compareTwo(ctx, ours, theirs, a[i], b[i]); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// compareTwo measures the same contender of both builds in turn.
func compareTwo(ctx context.Context, ours, theirs *lab, a, b *contest.Contender) error {
	name := a.Name
	ours.say("%s: %d rounds of %s each", name, ours.rounds, ours.slice)
	led, _, err := ours.roles(ctx)
	if err != nil {
		return err
	}
	theyLed, _, err := theirs.roles(ctx)
	if err != nil {
		return err
	}
	this, ref := *a, *b
	this.Name, ref.Name = "this", "ref"
	out, err := contest.Interleave(ctx, ours.rounds, ours.slice, []*contest.Contender{&ref, &this})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := errors.Join(ours.stillLeads(ctx, led), theirs.stillLeads(ctx, theyLed)); err != nil {
		return err
	}
	pairs(ours.report, name, out["ref"], out["this"])
	return nil
}

// pairs adds the figures of two builds to the report.
func pairs(r *report.Report, name string, ref, this *contest.Outcome) {
	quantile := func(o *contest.Outcome, q float64) (all []float64) {
		for _, s := range o.Slices {
			all = append(all, report.Quantile(report.Millis(s), q))
		}
		return all
	}
	r.Pair(name, "rate", "/s", ref.Rate, this.Rate)
	r.Pair(name, "p50", "ms", quantile(ref, 0.5), quantile(this, 0.5))
	r.Pair(name, "p99", "ms", quantile(ref, 0.99), quantile(this, 0.99))
	r.Pair(name, "CPU", "µs", ref.CPU["servers"], this.CPU["servers"])
}

// compareFSM runs the Go benchmarks of both builds.
func compareFSM(ctx context.Context, s *session) error {
	this, ref := filepath.Join(filepath.Dir(s.self), fsmTests), filepath.Join(s.ref, fsmTests)
	for _, path := range []string{this, ref} {
		if !isFile(path) {
			s.report.Note("the Go benchmarks were not compared: there is no %s (go test -c -o %s ./fsm)", path, path)
			return nil
		}
	}
	theirs, ours, err := gobench.Interleave(ctx, gobench.Binary{Path: ref, Dir: filepath.Dir(ref)},
		gobench.Binary{Path: this, Dir: filepath.Dir(this)}, s.goBenches, s.rounds, s.slice)
	if err != nil {
		return err
	}
	var names []string
	for name := range ours[0] {
		if theirs[0][name] == nil {
			s.report.Note("%s does not have the Go benchmark %s", s.ref, name)
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		units := []string{"ns/op", "B/op", "allocs/op"}
		if _, ok := ours[0][name]["ns/run"]; ok { // the same as ns/op
			units = []string{"ns/run", "cpu-ns/run", "B/op", "allocs/op"}
		}
		for _, unit := range units {
			var a, b []float64
			for i := range ours {
				if v, ok := ours[i][name][unit]; ok {
					a, b = append(a, v), append(b, theirs[i][name][unit])
				}
			}
			if len(a) > 0 {
				s.report.Pair("fsm "+name, unit, "", b, a)
			}
		}
	}
	return nil
}

package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/internal/bench/report"
)

// benchmark is one subcommand: parts that can be run by themselves.
type benchmark struct {
	name, short, long, example string
	parts                      []part
	within                     string   // another one that measures all of it, and more; goals run that one
	apart                      bool     // it has no goals
	flags                      []string // names of those that it takes, beside the ones that all take
	// Smaller defaults, and what only this one refuses. Nil for none.
	defaults func(*options)
	check    func(*options) error
}

// part measures one thing on a cluster of its own, and adds what it has found to the report.
type part struct {
	name, about string
	run         func(context.Context, *session) error
}

// benchmarks are all that there are.
func benchmarks() []benchmark {
	return slices.Concat([]benchmark{commit(), read(), failover(), watch(), runs()}, growthBenchmarks(),
		[]benchmark{keepalive(), idle(), compareBuilds(), scaling()})
}

// session is one run of a benchmark.
type session struct {
	options
	binary string // holdfast, which runs the peers
	self   string // this program, which runs the empty handlers
	dir    string // of this part
	report *report.Report
	notes  io.Writer
}

// say prints the progress with the time.
func (s *session) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.notes, time.Now().Format("15:04:05 ")+format+"\n", args...) // progress is optional
}

// chosen returns the parts that are to run.
func (b *benchmark) chosen(only []string) ([]part, error) {
	var names []string
	for _, p := range b.parts {
		names = append(names, p.name)
	}
	for _, o := range only {
		if !slices.Contains(names, o) {
			return nil, fmt.Errorf("set --only to parts of the benchmark %s (%s), not %q", b.name,
				strings.Join(names, ", "), o)
		}
	}
	return slices.DeleteFunc(slices.Clone(b.parts), func(p part) bool {
		return len(only) > 0 && !slices.Contains(only,
			p.name)
	}), nil
}

// Package bench implements `holdfast-bench`: it measures Holdfast beside well-known systems on the
// user's machine. It starts real peers as processes on loopback with the default TLS, tokens and
// fsync, and compares the figures with the goals of docs/performance.md.
//
// It owns the benchmarks. Package load makes load, contest puts contenders under load in turn,
// rival starts the systems to compare with, proc reads processor time and memory, and report
// writes the figures. It must not look into a peer: it measures only what clients and the
// operating system see. A ratio is between interleaved slices of one run, never between two runs.
package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/bench/report"
)

// benchmark is a subcommand. Its parts can be run separately.
type benchmark struct {
	name, short, long, example string
	parts                      []part
	within                     string   // a benchmark that includes this one; goals runs that one instead
	apart                      bool     // without goals
	flags                      []string // names, besides the common ones
	// check sets smaller defaults and returns an error for options that only this benchmark
	// refuses. Nil for none.
	defaults func(*options)
	check    func(*options) error
}

// part is a measurement with its own cluster. It adds its figures to the report.
type part struct {
	name, about string
	run         func(context.Context, *session) error
}

// benchmarks returns all benchmarks.
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

// say prints a line of progress with the time.
func (s *session) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.notes, time.Now().Format("15:04:05 ")+format+"\n", args...) // progress is optional
}

// chosen returns the parts named in only, or all.
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

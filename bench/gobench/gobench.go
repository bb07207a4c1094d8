// Package gobench runs the Go benchmarks of two builds of a package in turn, and reads their
// results.
//
// It owns the command line and output of test binaries. It must not know their package.
package gobench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Values are the results of one run, by benchmark and unit (ns/op, allocs/op, and custom units).
type Values map[string]map[string]float64

// Binary is a test binary, made by `go test -c`.
type Binary struct {
	Path string
	Dir  string // working directory
}

// Run runs the benchmarks that match a pattern on one processor. With more, ns/op would not include
// the concurrent work of the garbage collector.
func (b Binary) Run(ctx context.Context, pattern string, each time.Duration) (Values, error) {
	cmd := exec.CommandContext(ctx, b.Path, "-test.run=^$", "-test.bench="+pattern, //nolint:gosec // our own build
		"-test.benchtime="+each.String(), "-test.benchmem", "-test.cpu=1")
	cmd.Dir = b.Dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("run the benchmarks %s of %s: %w: %.2000s", pattern, b.Path, err, out)
	}
	return parse(string(out))
}

// parse reads the lines of benchmarks: name, iterations, then values with their units.
func parse(out string) (Values, error) {
	line := regexp.MustCompile(`^Benchmark(\S+)\s+\d+\s+(.*)$`)
	all := Values{}
	for in := bufio.NewScanner(strings.NewReader(out)); in.Scan(); {
		m := line.FindStringSubmatch(in.Text())
		if m == nil {
			continue
		}
		fields, values := strings.Fields(m[2]), map[string]float64{}
		for i := 0; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("read the result of benchmark %s: %w", m[1], err)
			}
			values[fields[i+1]] = v
		}
		all[m[1]] = values
	}
	if len(all) == 0 {
		return nil, errors.New("read the results: no benchmark matches")
	}
	return all, nil
}

// Interleave runs the benchmarks of two builds in turn, and every other round in the reverse order.
func Interleave(
	ctx context.Context, a, b Binary, pattern string, rounds int, each time.Duration,
) (ofA, ofB []Values, err error) {
	run := func(bin Binary, all *[]Values) error {
		v, err := bin.Run(ctx, pattern, each)
		*all = append(*all, v)
		return err
	}
	for round := range rounds {
		first, second, ofFirst, ofSecond := a, b, &ofA, &ofB
		if round%2 == 1 {
			first, second, ofFirst, ofSecond = b, a, &ofB, &ofA
		}
		if err := run(first, ofFirst); err != nil {
			return nil, nil, err
		}
		if err := run(second, ofSecond); err != nil {
			return nil, nil, err
		}
	}
	return ofA, ofB, nil
}

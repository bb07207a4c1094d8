// Package contest puts several contenders under load in turn, in short slices, so that other work
// on the machine slows down all of them.
//
// It owns slices, clients that call without a pause, and their counts. It must not know or judge
// the contenders.
package contest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/bench/proc"
)

// Loader makes load for a time and returns the latency of each operation.
type Loader interface {
	Run(ctx context.Context, d time.Duration) ([]time.Duration, error)
}

// Preparer is a Loader with a preparation before each slice.
type Preparer interface {
	Prepare(ctx context.Context) error
}

// Contender is one of the compared systems.
type Contender struct {
	Name  string
	Load  Loader
	Procs map[string][]int // the processes whose processor time is counted, by name
	// Clients is the number of clients, if operations take long. The rate is then the sum of the
	// rates of the clients, each over the time of its operations: after the end of a slice some
	// clients are still busy, and that time must not lower the rate of a slow contender.
	Clients int
}

// Outcome holds the results of the slices of one contender, one value each.
type Outcome struct {
	Rate      []float64            // operations per second
	Pace      []float64            // the same, always over the time of the slice
	Latencies []time.Duration      // of all slices
	Slices    [][]time.Duration    // the same, one slice each
	CPU       map[string][]float64 // microseconds per operation, by the name of the processes
}

// DriverCPU is the name of this process.
const DriverCPU = "driver"

// Interleave runs a slice of each contender in every round. Every other round has the reverse
// order (A B, B A, A B), so that no contender always follows the same one. An additional first
// round warms up and does not count.
func Interleave(ctx context.Context, rounds int, slice time.Duration, all []*Contender) (map[string]*Outcome, error) {
	out := map[string]*Outcome{}
	for _, c := range all {
		out[c.Name] = &Outcome{CPU: map[string][]float64{}}
	}
	order := slices.Clone(all)
	for round := range rounds + 1 {
		for _, c := range order {
			if err := c.turn(ctx, slice, out[c.Name], round > 0); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
		}
		slices.Reverse(order)
	}
	return out, nil
}

// Series runs one contender for several slices in a row, all of which count.
func Series(ctx context.Context, n int, slice time.Duration, c *Contender) (*Outcome, error) {
	out := &Outcome{CPU: map[string][]float64{}}
	for range n {
		if err := c.turn(ctx, slice, out, true); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return out, nil
}

// turn runs one slice.
func (c *Contender) turn(ctx context.Context, slice time.Duration, o *Outcome, counts bool) error {
	if p, ok := c.Load.(Preparer); ok {
		if err := p.Prepare(ctx); err != nil {
			return err
		}
	}
	procs := map[string][]int{DriverCPU: {os.Getpid()}}
	maps.Copy(procs, c.Procs)
	before := map[string]time.Duration{}
	for name, pids := range procs {
		t, err := proc.ProcessorTime(pids...)
		if err != nil {
			return err
		}
		before[name] = t
	}
	began := time.Now()
	latencies, err := c.Load.Run(ctx, slice)
	if err != nil || !counts {
		return err
	}
	took, n := time.Since(began), float64(len(latencies))
	if n == 0 {
		return fmt.Errorf("nothing was answered in %s", took)
	}
	for name, pids := range procs {
		t, err := proc.ProcessorTime(pids...)
		if err != nil {
			return err
		}
		o.CPU[name] = append(o.CPU[name], float64((t-before[name]).Microseconds())/n)
	}
	o.Rate, o.Pace = append(o.Rate, c.rate(latencies, took)), append(o.Pace, n/took.Seconds())
	o.Latencies, o.Slices = append(o.Latencies, latencies...), append(o.Slices, latencies)
	return nil
}

// rate returns the operations per second.
func (c *Contender) rate(latencies []time.Duration, took time.Duration) float64 {
	if c.Clients == 0 {
		return float64(len(latencies)) / took.Seconds()
	}
	var busy time.Duration
	for _, l := range latencies {
		busy += l
	}
	return float64(c.Clients) * float64(len(latencies)) / busy.Seconds()
}

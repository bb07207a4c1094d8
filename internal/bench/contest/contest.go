// Package contest has several contenders take turns under load, in short slices, so that other work
// on the machine slows down all of them.
//
// It owns slices, the clients that call without a pause, and what is counted of them. It must not
// know what the contenders are, nor judge them.
package contest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/internal/bench/proc"
)

// Loader puts something under load for a while, and gives how long each operation took.
type Loader interface {
	Run(ctx context.Context, d time.Duration) ([]time.Duration, error)
}

// Preparer is a Loader that has something to do before each of its slices.
type Preparer interface {
	Prepare(ctx context.Context) error
}

// Contender is one of those that are compared. Its slice puts it under load for a while.
type Contender struct {
	Name  string
	Load  Loader
	Procs map[string][]int // whose processor time is counted, by a name for it
	// Clients is how many there are, where what they do takes long. The rate is then what each of
	// them did in the time that it took it: when a slice ends some are done and others at work for
	// a while, and the time in which they are fewer must not count against what is slow.
	Clients int
}

// Outcome is what the slices of one contender have shown, one value each.
type Outcome struct {
	Rate      []float64            // operations a second
	Pace      []float64            // the same, always by the time of the slice
	Latencies []time.Duration      // of all slices
	Slices    [][]time.Duration    // the same, one slice each
	CPU       map[string][]float64 // microseconds an operation, by the name of the processes
}

// DriverCPU is the name for this process.
const DriverCPU = "driver"

// Interleave runs each contender for a slice in turn, round after round, and every other round in
// the reverse order: A B, B A, A B, so that nobody always comes after the same one. A first round
// is for warming up and does not count.
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

// turn is one slice.
func (c *Contender) turn(ctx context.Context, slice time.Duration, o *Outcome, counts bool) error {
	if p, ok := c.Load.(Preparer); ok {
		if err := p.Prepare(ctx); err != nil {
			return err
		}
	}
	procs := map[string][]int{DriverCPU: {os.Getpid()}}
	for name, pids := range c.Procs {
		procs[name] = pids
	}
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

// rate returns operations a second.
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

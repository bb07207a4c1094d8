package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-metal/holdfast/internal/bench/proc"
)

// loader puts something under load for a while, and gives how long each operation took.
type loader interface {
	run(ctx context.Context, d time.Duration) ([]time.Duration, error)
}

// preparer is a loader that has something to do before each of its slices.
type preparer interface {
	prepare(ctx context.Context) error
}

// contender is one of those that are compared. Its slice puts it under load for a while.
type contender struct {
	name  string
	load  loader
	procs map[string][]int // whose processor time is counted, by a name for it
	// clients is how many there are, where what they do takes long. The rate is then what each of
	// them did in the time that it took it: when a slice ends some are done and others at work for
	// a while, and the time in which they are fewer must not count against what is slow.
	clients int
}

// outcome is what the slices of one contender have shown, one value each.
type outcome struct {
	rate      []float64            // operations a second
	latencies []time.Duration      // of all slices
	cpu       map[string][]float64 // microseconds an operation, by the name of the processes
}

// driverCPU is the name for this process.
const driverCPU = "driver"

// interleave returns each contender a slice in turn, round after round. A first round is for
// warming up and does not count.
func interleave(ctx context.Context, rounds int, slice time.Duration, all []*contender) (map[string]*outcome, error) {
	out := map[string]*outcome{}
	for _, c := range all {
		out[c.name] = &outcome{cpu: map[string][]float64{}}
	}
	for round := range rounds + 1 {
		for _, c := range all {
			if err := c.turn(ctx, slice, out[c.name], round > 0); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return out, nil
}

// turn is one slice.
func (c *contender) turn(ctx context.Context, slice time.Duration, o *outcome, counts bool) error {
	if p, ok := c.load.(preparer); ok {
		if err := p.prepare(ctx); err != nil {
			return err
		}
	}
	procs := map[string][]int{driverCPU: {os.Getpid()}}
	for name, pids := range c.procs {
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
	latencies, err := c.load.run(ctx, slice)
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
		o.cpu[name] = append(o.cpu[name], float64((t-before[name]).Microseconds())/n)
	}
	o.rate = append(o.rate, c.rate(latencies, took))
	o.latencies = append(o.latencies, latencies...)
	return nil
}

// rate returns operations a second.
func (c *contender) rate(latencies []time.Duration, took time.Duration) float64 {
	if c.clients == 0 {
		return float64(len(latencies)) / took.Seconds()
	}
	var busy time.Duration
	for _, l := range latencies {
		busy += l
	}
	return float64(c.clients) * float64(len(latencies)) / busy.Seconds()
}

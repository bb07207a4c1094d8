package wave

import (
	"cmp"
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Cluster starts the runs of a wave and reports how they end.
type Cluster interface {
	// Start starts the run of a machine, or returns the one that it has in this wave.
	Start(ctx context.Context, machine string) (*holdfastv1.Run, error)
	// Watch calls f for each run of the wave, as it is and whenever it changes, until the context
	// ends.
	Watch(ctx context.Context, f func(*holdfastv1.Run) error) error
}

// Config is what a wave is to do.
type Config struct {
	Machines []string          // still to be started, in this order
	Known    []*holdfastv1.Run // what the wave has started before
	Parallel int               // how many runs are active at once, at most; 1 or more
	Failures int               // how many may fail before no more are started
	// Refused is told of each machine that could not be started; an error that it returns ends the
	// wave.
	Refused func(machine string, err error) error
	// Ended is told of each run that has ended.
	Ended func(run *holdfastv1.Run, p Progress)
}

// Progress counts.
type Progress struct {
	Total, Started, Succeeded, Failed, Refused int
}

// Active is how many runs go on.
func (p Progress) Active() int { return p.Started - p.Succeeded - p.Failed }

// Waiting is how many machines have not been started.
func (p Progress) Waiting() int { return p.Total - p.Started - p.Refused }

// Wave is one that is under way.
type Wave struct {
	cfg     Config
	cluster Cluster
	runs    map[string]*holdfastv1.Run // by machine
	refused map[string]bool
	p       Progress
}

// New returns a wave that has the runs it began before.
func New(cfg Config, c Cluster) *Wave {
	w := &Wave{cfg: cfg, cluster: c, runs: map[string]*holdfastv1.Run{}, refused: map[string]bool{}}
	w.p.Total = len(cfg.Machines) + len(cfg.Known)
	for _, r := range cfg.Known {
		w.note(r)
	}
	return w
}

// Run starts and waits until all runs have ended. It returns early, with an error, when the context
// ends or the cluster cannot be asked; what was started goes on then. Machines that were not
// started because too many failed are no error: they are in Progress.
func (w *Wave) Run(ctx context.Context) (Progress, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	news := make(chan *holdfastv1.Run)
	done := false
	g, watching := errgroup.WithContext(ctx)
	g.Go(func() error {
		err := w.cluster.Watch(watching, func(r *holdfastv1.Run) error {
			select {
			case news <- r:
				return nil
			case <-watching.Done():
				return watching.Err()
			}
		})
		return cmp.Or(err, errors.New("watch the runs of the wave: it ended by itself"))
	})
	g.Go(func() error {
		if err := w.drive(watching, news); err != nil {
			return err
		}
		done = true
		cancel() // there is nothing more to watch
		return nil
	})
	if err := g.Wait(); err != nil && !done {
		return w.p, err
	}
	return w.p, nil
}

func (w *Wave) drive(ctx context.Context, news <-chan *holdfastv1.Run) error {
	next := 0
	for {
		for next < len(w.cfg.Machines) && w.p.Active() < w.cfg.Parallel && !w.Stopped() {
			machine := w.cfg.Machines[next]
			r, err := w.cluster.Start(ctx, machine)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				if err := w.cfg.Refused(machine, err); err != nil {
					return err
				}
				w.p.Refused++
				w.refused[machine] = true
			default:
				w.note(r)
			}
			next++
		}
		if w.p.Active() == 0 {
			return nil
		}
		select {
		case r := <-news:
			w.note(r)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Stopped reports whether so many failed that no more are started.
func (w *Wave) Stopped() bool { return w.p.Failed+w.p.Refused > w.cfg.Failures }

// note counts what is new about a run. Events may come late: an older one changes nothing.
func (w *Wave) note(r *holdfastv1.Run) {
	before := w.runs[r.GetMachineId()]
	if before != nil && (ended(before) || r.GetRevision() < before.GetRevision()) {
		return
	}
	if before == nil {
		w.p.Started++
		if w.refused[r.GetMachineId()] { // the answer was lost, or another goes on with the same wave
			w.p.Refused--
		}
	}
	w.runs[r.GetMachineId()] = r
	if !ended(r) {
		return
	}
	if r.GetPhase() == holdfastv1.Run_SUCCEEDED {
		w.p.Succeeded++
	} else {
		w.p.Failed++
	}
	w.cfg.Ended(r, w.p)
}

func ended(r *holdfastv1.Run) bool {
	switch r.GetPhase() {
	case holdfastv1.Run_SUCCEEDED, holdfastv1.Run_FAILED, holdfastv1.Run_CANCELED:
		return true
	}
	return false
}

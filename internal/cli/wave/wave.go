package wave

import (
	"cmp"
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Cluster starts the runs of a wave and reports how they end.
type Cluster interface {
	// Start starts the run of a machine, or returns its run of this wave.
	Start(ctx context.Context, machine string) (*holdfastv1.Run, error)
	// Watch calls f for each run of the wave, with its current state and after each change,
	// until the context ends.
	Watch(ctx context.Context, f func(*holdfastv1.Run) error) error
}

// Config describes a wave.
type Config struct {
	Machines []string          // still to be started, in this order
	Known    []*holdfastv1.Run // what the wave has started before
	Parallel int               // how many runs are active at once, at most; 1 or more
	Failures int               // how many may fail before no more are started
	// Refused is called for each machine that could not be started; an error ends the wave.
	Refused func(machine string, err error) error
	// Ended is called for each run that has ended.
	Ended func(run *holdfastv1.Run, p Progress)
}

// Progress holds the counts of a wave.
type Progress struct {
	Total, Started, Succeeded, Failed, Refused int
}

// Active returns the number of active runs.
func (p Progress) Active() int { return p.Started - p.Succeeded - p.Failed }

// Waiting returns the number of machines that have not been started.
func (p Progress) Waiting() int { return p.Total - p.Started - p.Refused }

// Wave is an active wave.
type Wave struct {
	cfg     Config
	cluster Cluster
	runs    map[string]*holdfastv1.Run // by machine
	refused map[string]bool
	p       Progress
}

// New returns a wave with the runs that it started before.
func New(cfg Config, c Cluster) *Wave {
	w := &Wave{cfg: cfg, cluster: c, runs: map[string]*holdfastv1.Run{}, refused: map[string]bool{}}
	w.p.Total = len(cfg.Machines) + len(cfg.Known)
	for _, r := range cfg.Known {
		w.note(r)
	}
	return w
}

// Run starts the runs and waits until all have ended. It returns early, with an error, if the
// context ends or the cluster cannot be reached; started runs then continue. Machines that were
// not started because too many runs failed are no error: they are in Progress.
func (w *Wave) Run(ctx context.Context) (Progress, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	runs := make(chan *holdfastv1.Run)
	done := false
	g, watching := errgroup.WithContext(ctx)
	g.Go(func() error {
		err := w.cluster.Watch(watching, func(r *holdfastv1.Run) error {
			select {
			case runs <- r:
				return nil
			case <-watching.Done():
				return watching.Err()
			}
		})
		return cmp.Or(err, errors.New("watch the runs of the wave: it ended by itself"))
	})
	g.Go(func() error {
		if err := w.drive(watching, runs); err != nil {
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

func (w *Wave) drive(ctx context.Context, runs <-chan *holdfastv1.Run) error {
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
		case r := <-runs:
			w.note(r)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Stopped reports whether no more runs start because too many failed.
func (w *Wave) Stopped() bool { return w.p.Failed+w.p.Refused > w.cfg.Failures }

// note counts the changes of a run. Events may arrive late: an older one changes nothing.
func (w *Wave) note(r *holdfastv1.Run) {
	before := w.runs[r.GetMachineId()]
	if before != nil && (client.Finished(before) || r.GetRevision() < before.GetRevision()) {
		return
	}
	if before == nil {
		w.p.Started++
		if w.refused[r.GetMachineId()] { // the answer was lost, or another goes on with the same wave
			w.p.Refused--
		}
	}
	w.runs[r.GetMachineId()] = r
	if !client.Finished(r) {
		return
	}
	if r.GetPhase() == holdfastv1.Run_SUCCEEDED {
		w.p.Succeeded++
	} else {
		w.p.Failed++
	}
	w.cfg.Ended(r, w.p)
}

package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/internal/wait"
)

// Config configures the view. All but Now is required.
type Config struct {
	In  io.Reader // keys
	Out io.Writer // a terminal
	Env []string  // of the process: TERM and the like
	// Color enables colors; the view has the same content without them.
	Color bool
	// Every is the interval between two polls of the cluster. The runs are redrawn at least
	// five times as often.
	Every time.Duration
	Now   func() time.Time // default: time.Now
	// Width and Height are the size of Out if it is no terminal. Default: the terminal's size.
	Width, Height int
}

// The pause after a failed watch, and the maximum share of the time spent counting machines.
const (
	retry = time.Second
	share = 10
)

// Top is the view.
type Top struct {
	cfg    Config
	source Source
}

// New returns a view of a source.
func New(cfg Config, s Source) *Top {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Top{cfg, s}
}

// Run shows the view until the user quits, or the context ends; neither is an error.
func (t *Top) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The program has a context of its own: it must quit by itself to restore the terminal.
	p := tea.NewProgram(newModel(t.cfg.Now, t.cfg.Color), t.options()...)
	g, ctx := errgroup.WithContext(ctx)
	f := newFeed()
	g.Go(func() error { t.watch(ctx, f); return nil })
	g.Go(func() error {
		every(ctx, t.cfg.Every/5, func() { p.Send(f.take()) })
		return nil
	})
	g.Go(func() error {
		every(ctx, t.cfg.Every, func() {
			st, err := t.source.Status(ctx)
			p.Send(statusMsg{st, err})
		})
		return nil
	})
	g.Go(func() error { t.count(ctx, p.Send); return nil })
	g.Go(func() error {
		<-ctx.Done()
		p.Quit()
		return nil
	})
	_, err := p.Run()
	cancel()
	if e := g.Wait(); err == nil {
		err = e
	}
	if err != nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("draw on the terminal: %w", err)
	}
	return nil
}

func (t *Top) options() []tea.ProgramOption {
	all := []tea.ProgramOption{tea.WithInput(t.cfg.In), tea.WithOutput(t.cfg.Out), tea.WithEnvironment(t.cfg.Env),
		tea.WithoutSignalHandler()}
	if t.cfg.Width > 0 {
		all = append(all, tea.WithWindowSize(t.cfg.Width, t.cfg.Height))
	}
	return all
}

// watch follows the runs, and starts again after a failure.
func (t *Top) watch(ctx context.Context, f *feed) {
	for ctx.Err() == nil {
		f.begin()
		f.fail(t.source.WatchRuns(ctx, f.add))
		_ = wait.Sleep(ctx, retry)
	}
}

// count counts the machines repeatedly. Its pause grows with their number.
func (t *Top) count(ctx context.Context, send func(tea.Msg)) {
	for ctx.Err() == nil {
		begin := time.Now()
		fleet, err := t.source.Fleet(ctx)
		send(fleetMsg{fleet, err})
		_ = wait.Sleep(ctx, max(t.cfg.Every, share*time.Since(begin)))
	}
}

// every calls f at once and then at an interval until the context ends.
func every(ctx context.Context, d time.Duration, f func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for ctx.Err() == nil {
		f()
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// story is one demo.
type story struct {
	options
	dir      string // of the peers
	machines []*holdfastv1.Machine
	board    *board
	hardware *hardware
	cluster  *localcluster.Cluster // nil before it was made
	client   *client.Client        // nil before the cluster serves

	mu     sync.Mutex
	victim string // the peer that the demo has killed, if any
}

// run runs the demo and removes its files.
func run(ctx context.Context, o options, c *console) (err error) {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the executable of this process: %w", err)
	}
	s := &story{options: o, machines: inventory(o.machines)}
	s.board = newBoard(s.machines, time.Now)
	if s.hardware, err = newHardware(ctx, s.machines); err != nil {
		return err
	}
	remove, err := s.makeDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()

	// The hardware outlives the peers, whatever ends first.
	hwCtx, powerDown := context.WithCancel(context.WithoutCancel(ctx))
	defer powerDown()
	hw, hwCtx := errgroup.WithContext(hwCtx)
	hw.Go(func() error { return s.hardware.Run(hwCtx) })
	defer func() { //nolint:contextcheck // peers are stopped after ctx has ended
		err = errors.Join(err, s.stop())
		powerDown()
		err = errors.Join(err, hw.Wait())
	}()

	r, err := s.play(ctx, binary, c)
	switch {
	case ctx.Err() != nil && err != nil: // the other errors are consequences
		return errors.New("run the demo: interrupted")
	case err != nil:
		c.logs(err)
		return err
	}
	if err := c.finish(r); err != nil {
		return err
	}
	if !o.exit && ctx.Err() == nil {
		s.stay(ctx, binary, c)
	}
	return r.err()
}

// play runs the demo up to the report, with a display of its progress.
func (s *story) play(ctx context.Context, binary string, c *console) (*report, error) {
	shown, done := context.WithCancel(context.WithoutCancel(ctx))
	defer done()
	var r *report
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return watch(shown, s.board, c.display()) })
	g.Go(func() (err error) {
		defer done()
		r, err = s.perform(ctx, binary)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return r, nil
}

// perform runs the demo up to the report.
func (s *story) perform(ctx context.Context, binary string) (*report, error) {
	if err := s.startPeers(ctx, binary); err != nil {
		return nil, err
	}
	plan, err := s.client.Plans().GetPlan(ctx, &holdfastv1.GetPlanRequest{PlanId: planID})
	if err != nil {
		return nil, fmt.Errorf("get plan %s: %w", planID, err)
	}
	s.board.plan(plan)
	if err := s.register(ctx); err != nil {
		return nil, err
	}
	s.board.say(plain, "registered %s", plural(len(s.machines), "machine", "machines"))

	f, err := s.repave(ctx)
	if err != nil {
		return nil, err
	}
	if !s.exit && f.killed != "" {
		if err := s.revive(ctx, f.killed); err != nil {
			return nil, err
		}
	}
	runs, err := s.record(ctx)
	if err != nil {
		return nil, err
	}
	r := newReport(len(s.machines), runs, s.hardware.fleet.Effects("", "", 0), f, s.board.elapsed())
	if s.kept() {
		r.Dir = s.dir
	}
	return r, nil
}

// repave runs the plan on all machines and kills the leader in the middle. After the timeout it
// returns without an error, and the report lists the runs that have not ended.
func (s *story) repave(ctx context.Context) (failover, error) {
	g, ctx := errgroup.WithContext(ctx)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var f failover
	g.Go(func() error { return s.follow(watching) })
	g.Go(func() error { return s.watchPeers(watching) })
	g.Go(func() error {
		if err := s.start(ctx); err != nil {
			return err
		}
		s.board.say(plain, "started a run of %s on each machine", planID)
		return nil
	})
	g.Go(func() (err error) {
		defer stop()
		late := time.NewTimer(s.timeout)
		defer late.Stop()
		select {
		case <-s.board.half:
		case <-late.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		if f, err = s.failover(ctx); err != nil {
			return err
		}
		select {
		case <-s.board.finished:
			s.board.say(good, "all runs have ended")
			return nil
		case <-late.C:
			s.board.say(bad, "time is up after %s: not all runs have ended", s.timeout)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return f, g.Wait()
}

// makeDir creates the directory of the peers. It returns a function that removes it unless it is
// kept.
func (s *story) makeDir() (remove func() error, err error) {
	if s.options.dir == "" {
		if s.dir, err = os.MkdirTemp("", "holdfast-demo-"); err != nil {
			return nil, fmt.Errorf("make a directory for the peers: %w", err)
		}
		return func() error {
			if s.kept() {
				return nil
			}
			return os.RemoveAll(s.dir)
		}, nil
	}
	if s.dir, err = filepath.Abs(s.options.dir); err != nil {
		return nil, fmt.Errorf("find --dir %s: %w", s.options.dir, err)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make --dir: %w", err)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("read --dir: %w", err)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("use --dir %s: it is not empty: name an empty or a new directory", s.dir)
	}
	return func() error { return nil }, nil
}

// kept reports whether data and logs are kept.
func (s *story) kept() bool { return s.keepDir || s.options.dir != "" }

// stop ends all peers. It kills them if their data is not kept.
func (s *story) stop() error {
	var errs []error
	if s.client != nil {
		errs = append(errs, s.client.Close())
	}
	if s.cluster != nil {
		for _, p := range s.cluster.Peers() {
			if !s.kept() && p.Running() {
				errs = append(errs, p.Kill())
			}
		}
		errs = append(errs, s.cluster.Close())
	}
	return errors.Join(errs...)
}

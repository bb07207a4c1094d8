package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/bench/contest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// pacedReads is the rate of the open loop of reads.
const pacedReads = 1000

// setReads reads on a follower: without a pause, the same under writes, and at a fixed rate under
// writes.
func setReads(ctx context.Context, l *lab, do turns) (err error) {
	procs, leader, follower, err := l.servers(ctx)
	if err != nil {
		return err
	}
	if err := (&machinePool{lab: l}).fill(ctx, readFleet); err != nil {
		return err
	}
	c := &calls{lab: l, procs: procs}
	defer func() { err = errors.Join(err, c.close()) }()
	reads, err := c.to(follower, l.conns, getMachine(false))
	if err != nil {
		return err
	}
	writes, err := c.to(leader, readWriters, relabel)
	if err != nil {
		return err
	}
	c.add("reads.quiet", reads)
	c.add("reads.writes", &contest.Under{Loader: reads, Background: writes})
	c.add(fmt.Sprintf("reads.%d/s", pacedReads),
		&contest.Under{Loader: &contest.Paced{Calls: reads, Rate: pacedReads}, Background: writes})
	return do(ctx, l, c.all)
}

// setWatch opens watchers on a follower and starts one run after the other.
func setWatch(ctx context.Context, l *lab, do turns) (err error) {
	if err := l.plan(ctx, powerCycle()); err != nil {
		return err
	}
	procs, leader, follower, err := l.servers(ctx)
	if err != nil {
		return err
	}
	c := &calls{lab: l, procs: procs}
	defer func() { err = errors.Join(err, c.close()) }()
	e := &events{receipts: &receipts{}, machinePool: &machinePool{lab: l}}
	if e.at, err = c.to(leader, 1, e.machinePool.startRun); err != nil {
		return err
	}
	if err := e.Prepare(ctx); err != nil {
		return err
	}
	if err := e.at.Once(ctx); err != nil { // it never ends, so the other runs stay queued
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	g, err := l.openWatchers(running, follower.GRPCAddr, e.receipts)
	if err != nil {
		stop()
		return errors.Join(err, g.Wait())
	}
	c.add(fmt.Sprintf("watch.%d", l.watchers), e)
	err = do(ctx, l, c.all)
	stop()
	return errors.Join(err, g.Wait())
}

// events is a contest.Loader that makes an event as soon as all watchers have the last one.
type events struct {
	receipts    *receipts
	machinePool *machinePool
	at          *contest.Calls
}

// Prepare registers the machines of a slice.
func (e *events) Prepare(ctx context.Context) error { return e.machinePool.fill(ctx, readFleet) }

// Run returns the times until all watchers had an event.
func (e *events) Run(ctx context.Context, d time.Duration) (all []time.Duration, err error) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		took, err := e.receipts.startOne(ctx, e.at, e.machinePool, e.machinePool.watchers)
		if errors.Is(err, contest.ErrEnough) {
			break
		}
		if err != nil {
			return nil, err
		}
		all = append(all, took)
	}
	return all, nil
}

// setSteps starts runs of three steps and waits for their ends.
func setSteps(ctx context.Context, l *lab, do turns) (err error) {
	if err := l.plan(ctx, inspect("before"), powerCycle(), inspect("after")); err != nil {
		return err
	}
	procs, leader, _, err := l.servers(ctx)
	if err != nil {
		return err
	}
	c := &calls{lab: l, procs: procs}
	defer func() { err = errors.Join(err, c.close()) }()
	s := &transitions{machinePool: &machinePool{lab: l}}
	if s.starts, err = c.to(leader, readers, s.machinePool.startRun); err != nil {
		return err
	}
	c.add(fmt.Sprintf("steps.%d", l.runs), s)
	return l.watching(ctx, func(ctx context.Context, e *ends) error {
		s.ends = e
		return do(ctx, l, c.all)
	})
}

// transitions is a contest.Loader whose slice is a number of runs, of any length.
type transitions struct {
	machinePool *machinePool
	starts      *contest.Calls
	ends        *ends
}

// Prepare registers the machines of a slice.
func (s *transitions) Prepare(ctx context.Context) error {
	return s.machinePool.fill(ctx, s.machinePool.runs)
}

// Run returns the times from the end of a step to the begin of the next.
func (s *transitions) Run(ctx context.Context, _ time.Duration) ([]time.Duration, error) {
	var waiting []<-chan *holdfastv1.Run
	for i := range s.machinePool.runs {
		waiting = append(waiting, s.ends.of(machineID(int(s.machinePool.taken.Load())+i)))
	}
	ctx, stop := context.WithTimeout(ctx, runsTimeout)
	defer stop()
	if _, err := s.starts.Run(ctx, runsTimeout); err != nil {
		return nil, err
	}
	var done []*holdfastv1.Run
	for _, ch := range waiting {
		run, err := ended(ctx, ch)
		if err != nil {
			return nil, err
		}
		done = append(done, run)
	}
	between, _ := betweenSteps(done)
	return between, nil
}

package mutant

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/failpoint"
	"github.com/holdfast-metal/holdfast/test/lab"
	"github.com/holdfast-metal/holdfast/test/robustness/check"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// bench is a cluster in a scenario, with a recorder of the scenario's calls.
type bench struct {
	*lab.Lab
	rec    *workload.Recorder
	points failpoint.Switches
	dir    string
	stop   func()
}

// lines is the number of the recorder's connections to each peer: peer n is also peer n+3,
// n+6 and so on.
const lines = 8

// machineID is the machine of most scenarios.
const machineID = "m-1"

// open starts a cluster with machineID. Its peers can die at the given failpoints.
func (e Env) open(ctx context.Context, points ...string) (*bench, error) {
	s, err := failpoint.NewSwitches(filepath.Join(e.Dir, "failpoints"), points...)
	if err != nil {
		return nil, err
	}
	return e.openWith(ctx, s, lab.Config{Env: []string{s.Environment(points...)}})
}

func (e Env) openWith(ctx context.Context, s failpoint.Switches, cfg lab.Config) (*bench, error) {
	cfg.Binary, cfg.Dir = e.Binary, e.Dir
	l, err := lab.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	b := &bench{Lab: l, points: s, dir: e.Dir}
	if b.rec, err = workload.NewRecorder(slices.Repeat(l.Addrs(), lines), l.Credentials()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	revive, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Revive(revive)
	}()
	b.stop = func() {
		stop()
		<-done
	}
	if err := errors.Join(l.Steady(ctx), l.Register(ctx, machineID)); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) close() error {
	b.stop()
	return errors.Join(b.rec.Close(), b.Lab.Close())
}

// index returns the number of a peer.
func (b *bench) index(id string) int {
	for i, p := range b.Peers() {
		if p.ID == id {
			return i
		}
	}
	return 0
}

// truth compares the recorded history with the final record, after the cluster is repaired.
func (b *bench) truth(ctx context.Context, machines ...string) ([]error, error) {
	if err := b.Steady(ctx); err != nil {
		return nil, err
	}
	return check.Truth(ctx, b.rec.History(machines...), b.Target(), b.dir), nil
}

// write writes a unique value at a peer.
func (b *bench) write(ctx context.Context, peer int, machine, value string) workload.Op {
	return b.rec.UpdateMachine(ctx, workload.Op{Peer: peer, Machine: machine, Value: value}, callTime)
}

const callTime = 5 * time.Second

// mustWrite writes through the leader as soon as there is one, and returns its number.
func (b *bench) mustWrite(ctx context.Context, value string) (int, error) {
	for n := 0; ; n++ {
		leader, err := b.Leader(ctx)
		if err != nil {
			return 0, err
		}
		op := b.write(ctx, b.index(leader.ID), machineID, fmt.Sprintf("%s-%d", value, n))
		if op.Outcome == workload.OK {
			return op.Peer, nil
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("write %s: %s %s", value, op.Code, op.Message)
		}
	}
}

// run starts a run of some steps on machineID through the recorder, at the first peer that
// accepts it.
func (b *bench) run(ctx context.Context, plan string, steps ...*holdfastv1.Step) (string, error) {
	if err := b.Plan(ctx, plan, steps...); err != nil {
		return "", err
	}
	for peer := 0; ; peer++ {
		op := b.rec.StartRun(ctx, workload.Op{Peer: peer % len(b.Peers()), Machine: machineID, Request: "q-" + plan,
			Plan: plan}, callTime)
		if op.Outcome == workload.OK {
			return op.Got.ID, nil
		}
		if op.Outcome == workload.Refused || ctx.Err() != nil {
			return "", fmt.Errorf("start %s: %s %s", plan, op.Code, op.Message)
		}
	}
}

// dies blocks until a peer has died at a point and was restarted.
func (b *bench) dies(ctx context.Context, point string) error {
	return lab.Until(ctx, "a peer to die at "+point, func() bool { return b.points.Fired(point) && b.Deaths() > 0 })
}

// over blocks until a run has ended, in any phase.
func (b *bench) over(ctx context.Context, run string) error {
	if _, err := b.Client.WaitRun(ctx, run); err != nil {
		return fmt.Errorf("wait for run %s: %w", run, err)
	}
	return nil
}

package mutant

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
	"github.com/holdfast-metal/holdfast/test/failpoint"
	"github.com/holdfast-metal/holdfast/test/lab"
	"github.com/holdfast-metal/holdfast/test/program"
	"github.com/holdfast-metal/holdfast/test/robustness/check"
	"github.com/holdfast-metal/holdfast/test/robustness/site"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// realBench is a cluster with real hardware.
type realBench struct {
	*bench
	site *site.Site
	real *workload.Real
}

// openReal starts a site and a cluster that uses it.
func (e Env) openReal(ctx context.Context, cfg site.Config, points ...string) (*realBench, error) {
	bmcServer, err := program.Build{Package: site.BMCServer}.Into(ctx, e.Dir)
	if err != nil {
		return nil, err
	}
	cfg.Dir, cfg.BMCServer = filepath.Join(e.Dir, "site"), bmcServer
	s, err := site.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if s.Without != "" {
		return nil, errors.Join(errors.New("no real host here: "+s.Without), s.Close())
	}
	keys, err := workload.SecretsKey(cfg.Dir)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	switches, err := failpoint.NewSwitches(filepath.Join(e.Dir, "failpoints"), points...)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	b, err := e.openWith(ctx, switches, lab.Config{Env: []string{switches.Environment(points...)}, Args: keys,
		Providers: s.Providers()})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	r := &realBench{bench: b, site: s}
	if r.real, err = workload.PrepareReal(ctx, b.rec, s); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *realBench) close() error { return errors.Join(r.bench.close(), r.site.Close()) }

// once makes one run of a plan on a real machine, during which a peer dies at a point, if
// one is given.
func (r *realBench) once(ctx context.Context, machine, plan, request, point string) error {
	if point != "" {
		if err := r.points.Arm(point); err != nil {
			return err
		}
	}
	for peer := 0; ; peer++ {
		op := r.rec.StartRun(ctx, workload.Op{Peer: peer % len(r.Peers()), Machine: machine, Plan: plan,
			Request: request}, callTime)
		switch {
		case op.Outcome == workload.OK && point == "":
			return r.over(ctx, op.Got.ID)
		case op.Outcome == workload.OK:
			return errors.Join(r.dies(ctx, point), r.over(ctx, op.Got.ID))
		case op.Outcome == workload.Refused || ctx.Err() != nil:
			return errors.New("start " + plan + ": " + op.Code + " " + op.Message)
		}
	}
}

// truth compares everything with the record. Violations of the named check come first.
func (r *realBench) truth(ctx context.Context, first string) ([]error, error) {
	if err := r.Steady(ctx); err != nil {
		return nil, err
	}
	h := r.rec.History()
	h.Real = r.real
	found := check.Truth(ctx, h, r.Target(), r.dir)
	slices.SortStableFunc(found, func(a, b error) int {
		switch of := func(err error) bool { return strings.HasPrefix(err.Error(), first+":") }; {
		case of(a) && !of(b):
			return -1
		case of(b) && !of(a):
			return 1
		}
		return 0
	})
	return found, nil
}

// dieWhileRunning kills the leader after output of a command on a real host was recorded.
func dieWhileRunning() Scenario {
	return Scenario{Name: "the leader dies while a command runs on a real host",
		Run: func(ctx context.Context, e Env) ([]error, error) {
			const point = "logs-committed"
			r, err := e.openReal(ctx, site.Config{SSH: true}, point)
			if err != nil {
				return nil, err
			}
			defer func() { _ = r.close() }()
			if err := r.once(ctx, r.real.Hosts[0], workload.HostPlan, "q", point); err != nil {
				return nil, err
			}
			return r.truth(ctx, "starts")
		}}
}

// dieAfterPress kills the leader after a BMC has accepted a press whose effect takes a
// while.
func dieAfterPress() Scenario {
	return Scenario{Name: "the leader dies right after a press that takes a BMC a while",
		Run: func(ctx context.Context, e Env) ([]error, error) {
			const point = "effect-done"
			r, err := e.openReal(ctx, site.Config{BMCs: 1, PowerTime: 3 * time.Second}, point)
			if err != nil {
				return nil, err
			}
			defer func() { _ = r.close() }()
			if err := r.once(ctx, r.real.BMCs[0], workload.CyclePlan, "q", point); err != nil {
				return nil, err
			}
			return r.truth(ctx, "presses")
		}}
}

// killWithSession kills a leader that has a session with a BMC; the next one uses the BMC
// too.
func killWithSession() Scenario {
	return Scenario{Name: "the leader dies with a session on a BMC",
		Run: func(ctx context.Context, e Env) ([]error, error) {
			r, err := e.openReal(ctx, site.Config{BMCs: 1})
			if err != nil {
				return nil, err
			}
			defer func() { _ = r.close() }()
			if err := r.once(ctx, r.real.BMCs[0], workload.CyclePlan, "q1", ""); err != nil {
				return nil, err
			}
			leader, err := r.Leader(ctx)
			if err != nil {
				return nil, err
			}
			if err := leader.Kill(); err != nil { // it is restarted
				return nil, err
			}
			if err := r.once(ctx, r.real.BMCs[0], workload.CyclePlan, "q2", ""); err != nil {
				return nil, err
			}
			return r.truth(ctx, "sessions")
		}}
}

// lie makes a BMC accept every press and do nothing.
func lie() Scenario {
	return Scenario{Name: "a BMC accepts presses and does nothing",
		Run: func(ctx context.Context, e Env) ([]error, error) {
			r, err := e.openReal(ctx, site.Config{BMCs: 1})
			if err != nil {
				return nil, err
			}
			defer func() { _ = r.close() }()
			if err := r.site.BMCs[0].Quirks(ctx, redfishtest.Quirks{Ignore: []string{"reset"}}); err != nil {
				return nil, err
			}
			if err := r.once(ctx, r.real.BMCs[0], workload.OffPlan, "q", ""); err != nil {
				return nil, err
			}
			return r.truth(ctx, "atrest")
		}}
}

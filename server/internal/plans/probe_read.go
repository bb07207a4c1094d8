package plans

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// read reads everything that the steps need, each item once and all of them concurrently.
func (p *prober) read(ctx context.Context, plan *holdfastv1.Plan) {
	ctx, stop := context.WithTimeout(ctx, probeTime)
	defer stop()
	var g errgroup.Group
	into := func(r *reading, read func() (string, error)) {
		g.Go(func() error {
			r.text, r.err = read()
			return nil
		})
	}
	if b, ok := p.provider.(providers.PowerController); ok {
		into(&p.power, func() (string, error) {
			state, err := b.PowerState(ctx, p.m)
			return "the BMC answers: power is " + string(state), err
		})
	}
	if b, ok := p.provider.(providers.BootController); ok && wants(plan, holdfastv1.StepKind_BOOT_DEVICE) {
		into(&p.boot, func() (string, error) {
			d, err := b.BootDevice(ctx, p.m)
			return "the boot device can be read: " + d.Mode, err
		})
	}
	if b, ok := p.provider.(providers.MediaController); ok && wants(plan, holdfastv1.StepKind_VIRTUAL_DRIVE) {
		into(&p.media, func() (string, error) {
			_, err := b.Media(ctx, p.m)
			return "the virtual drive can be read", err
		})
	}
	if h, ok := p.provider.(providers.Inspector); ok {
		g.Go(func() error {
			p.host = hostReading(h.Inspect(ctx, p.m))
			return nil
		})
	}
	p.clusters = map[string]reading{}
	found := map[string]*reading{}
	if j, ok := p.provider.(providers.ClusterJoiner); ok {
		for _, s := range plan.GetSteps() {
			ref := p.clusterOf(s)
			if ref == "" || found[ref] != nil {
				continue
			}
			found[ref] = &reading{}
			into(found[ref], func() (string, error) {
				n, err := j.NodeStatus(ctx, p.m, ref)
				if n.Registered && n.Node == "" {
					return fmt.Sprintf("cluster %s answers; the machine is in it (%s)", ref, n.Reason), err
				}
				if n.Registered {
					return fmt.Sprintf("cluster %s answers; node %s is in it (%s)", ref, n.Node, n.Reason), err
				}
				return fmt.Sprintf("cluster %s answers; the machine has no node (%s)", ref, n.Reason), err
			})
		}
	}
	_ = g.Wait() // each read has its own error
	for ref, r := range found {
		p.clusters[ref] = *r
	}
}

// hostReading returns the reading for the facts of a host.
func hostReading(f providers.Facts, err error) reading {
	switch {
	case err != nil:
		return reading{err: err}
	case f.ReachableUnknown:
		return reading{text: "it is unknown whether the host answers: " + f.ReachableReason, unknown: true}
	case !f.Reachable:
		return reading{err: fmt.Errorf("the host does not answer: %s", f.ReachableReason)}
	}
	return reading{text: "the host answers: " + f.ReachableReason}
}

// wants reports whether a step of a plan declares a check.
func wants(plan *holdfastv1.Plan, c holdfastv1.StepKind_Check) bool {
	return slices.ContainsFunc(plan.GetSteps(), func(s *holdfastv1.Step) bool {
		return slices.Contains(stepkind.Of(s).GetChecks(), c)
	})
}

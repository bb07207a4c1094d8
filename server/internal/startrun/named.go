package startrun

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-metal/holdfast/internal/nearest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/internal/clusterref"
)

// checkImage adds the image that the caller names, if the run needs it and it does not exist. Only
// the peer knows whether the provider installs images of the cluster or its own. An image that is
// deleted later fails the step, as before.
func (s *Preparer) checkImage(ctx context.Context, start *internalv1.StartRun, p providers.Provider,
	plan *holdfastv1.Plan) error {
	name := start.GetParams()["image"]
	i := slices.IndexFunc(plan.GetSteps(), func(s *holdfastv1.Step) bool {
		return s.GetRepave() != nil && s.GetRepave().GetImage() == ""
	})
	if boots, ok := p.(interface{ BootsInstaller() bool }); name == "" || i < 0 || !ok || !boots.BootsInstaller() {
		return nil
	}
	if _, there := s.State.View().Image(name); there {
		return nil
	}
	v, err := s.Node.View(ctx) // it may have been added a moment ago, on an earlier leader
	if err != nil {
		return err
	}
	if _, there := v.Image(name); there {
		return nil
	}
	start.MissingForStep = plan.GetSteps()[i].GetName()
	start.MissingCapability = fmt.Sprintf("there is no image %q", name)
	var names []string
	for img := range v.Images("") {
		names = append(names, img.GetName())
	}
	if like := nearest.Of(name, names); like != "" {
		start.MissingCapability += fmt.Sprintf(": did you mean %q?", like)
	}
	start.MissingCapability += ": see: holdfast image list"
	return nil
}

// checkCluster adds the cluster that the caller names, if a step joins or verifies it there and
// it is not registered. Only the peer knows whether the provider joins registered clusters or its
// own. A drain needs no registered cluster: without one it runs a script on the host. This only
// spares the caller a typo: a cluster that is deleted later fails the step.
func (s *Preparer) checkCluster(ctx context.Context, start *internalv1.StartRun, p providers.Provider,
	plan *holdfastv1.Plan) error {
	ref := start.GetParams()["cluster_ref"]
	i := slices.IndexFunc(plan.GetSteps(), func(s *holdfastv1.Step) bool {
		return s.GetJoin() != nil && s.GetJoin().GetClusterRef() == "" ||
			s.GetVerify() != nil && s.GetVerify().GetClusterRef() == ""
	})
	if ref == "" || i < 0 || !clusterref.Uses(p) || clusterref.Registered(s.State.View(), ref) {
		return nil
	}
	v, err := s.Node.View(ctx) // it may have been registered a moment ago, on an earlier leader
	if err != nil || clusterref.Registered(v, ref) {
		return err
	}
	m, _ := v.Machine(start.GetMachineId())
	start.MissingForStep = plan.GetSteps()[i].GetName()
	start.MissingCapability = clusterref.Problem(v, ref, m.GetSpec().GetPool())
	return nil
}

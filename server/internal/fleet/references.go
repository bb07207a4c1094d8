package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/nearest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/clusterref"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// Providers are the configured providers of this peer (*providers.Set).
type Providers interface {
	Of(m providers.Machine) (providers.Provider, error)
	Has(name string) bool
	Names() []string // sorted
}

// checkReferences returns an error if a registration, or an update of these paths, sets a
// provider that this peer, the leader, is not configured with, or a cluster that is not
// registered. A machine may keep the names that it has: they may be older than this check, or
// than a change of the configuration.
//
// This only spares the caller a typo and protects no state: the next leader may have another
// configuration, or be of a version without this check, and a cluster may be deleted at any time.
// So it need not be atomic with the command, and each run checks again.
func (s *Machines) checkReferences(ctx context.Context, m *holdfastv1.Machine, paths []string) error {
	provider, ref := strings.TrimSpace(m.GetSpec().GetProvider()), strings.TrimSpace(m.GetSpec().GetTargetClusterRef())
	noProvider := provider != "" && sets(paths, "spec.provider") && !s.providers.Has(provider)
	noCluster := ref != "" && sets(paths, "spec.target_cluster_ref") && !clusterref.Registered(s.State.View(), ref)
	if !noProvider && !noCluster {
		return nil
	}
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return err
	}
	old, visible := scope.Machine(ctx, v, m.GetMachineId())
	if !visible {
		old = nil
	}
	switch {
	case noProvider && provider != old.GetSpec().GetProvider():
		return s.noProvider(provider)
	case noCluster && ref != old.GetSpec().GetTargetClusterRef():
		return s.checkCluster(ctx, v, ref, updated(old, m, paths))
	}
	return nil
}

// noProvider returns the refusal of a provider that is not configured.
func (s *Machines) noProvider(name string) error {
	known := s.providers.Names()
	text := fmt.Sprintf("%.64q is not configured", name)
	if like := nearest.Of(name, known); like != "" {
		text += fmt.Sprintf(": did you mean %q?", like)
	}
	return request.Invalid("machine.spec.provider",
		text+": configured: "+cmp.Or(strings.Join(known, ", "), "none"))
}

// checkCluster returns an error if a cluster is not registered and the machine's provider joins
// only registered ones. The FSM refuses each cluster that a caller with a scope does not own,
// without revealing whether it is registered.
func (s *Machines) checkCluster(ctx context.Context, v *fsm.View, ref string, m *holdfastv1.Machine) error {
	if auth.Scoped(auth.From(ctx)) || clusterref.Registered(v, ref) {
		return nil
	}
	if p, err := s.providers.Of(m); err != nil || !clusterref.Uses(p) {
		return nil //nolint:nilerr // each run is refused for the provider
	}
	return request.Invalid("machine.spec.target_cluster_ref", clusterref.Problem(v, ref, m.GetSpec().GetPool()))
}

// updated returns the part of a machine that determines its provider and its clusters, after an
// update of these paths.
func updated(old, in *holdfastv1.Machine, paths []string) *holdfastv1.Machine {
	m := &holdfastv1.Machine{MachineId: in.GetMachineId(), Labels: old.GetLabels(), Spec: &holdfastv1.MachineSpec{
		Provider: old.GetSpec().GetProvider(), Pool: old.GetSpec().GetPool()}}
	if sets(paths, "spec.provider") {
		m.Spec.Provider = in.GetSpec().GetProvider()
	}
	if sets(paths, "spec.pool") {
		m.Spec.Pool = in.GetSpec().GetPool()
	}
	if len(in.GetLabels()) > 0 {
		m.Labels = in.GetLabels()
	}
	return m
}

// sets reports whether an update of these paths sets a field of the spec.
func sets(paths []string, field string) bool {
	return len(paths) == 0 || slices.Contains(paths, "spec") || slices.Contains(paths, field)
}

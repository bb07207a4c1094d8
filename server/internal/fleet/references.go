package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/nearest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// Providers are the configured providers of this peer (*providers.Set).
type Providers interface {
	Has(name string) bool
	Names() []string // sorted
}

// checkReferences returns an error if a registration, or an update of these paths, gives a machine
// a provider that this peer, the leader, is not configured with. A machine may keep the name that
// it has: it may be older than this check, or than a change of the configuration.
//
// This only spares the caller a typo and protects no state: the next leader may have another
// configuration, or be of a version without this check. So it need not be atomic with the command,
// and each run checks the provider itself.
func (s *Machines) checkReferences(ctx context.Context, m *holdfastv1.Machine, paths []string) error {
	provider := strings.TrimSpace(m.GetSpec().GetProvider())
	if provider == "" || !sets(paths, "spec.provider") || s.providers.Has(provider) {
		return nil
	}
	v, err := s.Node.View(ctx)
	if err != nil {
		return err
	}
	if old, ok := scope.Machine(ctx, v, m.GetMachineId()); ok && old.GetSpec().GetProvider() == provider {
		return nil
	}
	return s.noProvider(provider)
}

func (s *Machines) noProvider(name string) error {
	known := s.providers.Names()
	text := fmt.Sprintf("%.64q is not configured", name)
	if like := nearest.Of(name, known); like != "" {
		text += fmt.Sprintf(": did you mean %q?", like)
	}
	return request.Invalid("machine.spec.provider",
		text+": configured: "+cmp.Or(strings.Join(known, ", "), "none"))
}

// sets reports whether an update of these paths sets a field of the spec.
func sets(paths []string, field string) bool {
	return len(paths) == 0 || slices.Contains(paths, "spec") || slices.Contains(paths, field)
}

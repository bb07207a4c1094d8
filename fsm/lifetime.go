package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/lifetime"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Lifetime is how long the leases of a kind last, and how often they are renewed.
type Lifetime = lifetime.Lifetime

// LifetimeOf returns the lifetime of the leases of a kind, the only table of them.
func LifetimeOf(kind internalv1.LeaseRef_Kind) Lifetime { return lifetime.Of(kind) }

// Package leases has the heartbeats and the expiry of leases. It must not change the owner of a
// lease itself: the owner's package does.
package leases

import "github.com/holdfast-metal/holdfast/fsm/internal/core"

// View has the queries of this package.
type View struct{ s *core.State }

// NewView returns the queries of a frozen state.
func NewView(s *core.State) View { return View{s} }

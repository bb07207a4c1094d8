// Package registry has the rules of pools, marketplace providers and services, which register
// themselves and send heartbeats. It must not know a machine, only their number in a pool.
package registry

import "github.com/holdfast-metal/holdfast/fsm/internal/core"

// View has the queries of this package.
type View struct{ s *core.State }

// NewView returns the queries of a frozen state.
func NewView(s *core.State) View { return View{s} }

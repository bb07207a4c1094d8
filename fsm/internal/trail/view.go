// Package trail has the audit trail: a chain of events in which none can be left out unnoticed. It
// must not know the commands: the caller determines the resource of each event.
package trail

import "github.com/holdfast-metal/holdfast/fsm/internal/core"

// View has the queries of this package.
type View struct{ s *core.State }

// NewView returns the queries of a frozen state.
func NewView(s *core.State) View { return View{s} }

// Package fleet has the rules of machines: their inventory, phase, conditions, node record, agent
// and hardware. It must not know how a run or an installation proceeds.
package fleet

import "github.com/holdfast-metal/holdfast/fsm/internal/core"

// View has the queries of this package.
type View struct{ s *core.State }

// NewView returns the queries of a frozen state.
func NewView(s *core.State) View { return View{s} }

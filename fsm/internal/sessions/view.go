// Package sessions has the install sessions as stored: their stages, their tokens and their end.
// It must not know the attempt of a session, nor the commands that open and advance one.
package sessions

import "github.com/holdfast-metal/holdfast/fsm/internal/core"

// View has the queries of this package.
type View struct{ s *core.State }

// NewView returns the queries of a frozen state.
func NewView(s *core.State) View { return View{s} }

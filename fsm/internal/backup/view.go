// Package backup has the format of snapshot files, and the commands that stage and restore one. It
// must not read or write a file itself: the caller has the reader or writer.
package backup

import "github.com/holdfast-metal/holdfast/fsm/internal/core"

// View has the queries of this package.
type View struct{ s *core.State }

// NewView returns the queries of a frozen state.
func NewView(s *core.State) View { return View{s} }

// Package runs has the rules of plans, images and runs: a run's start, its attempts, its log and
// its effect on the machine. It must not know the reports of installers.
package runs

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/runlog"
)

// View has the queries of this package.
type View struct {
	s     *core.State
	codec *runlog.Codec
}

// NewView returns the queries of a frozen state.
func NewView(s *core.State, codec *runlog.Codec) View {
	return View{s: s, codec: codec}
}

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

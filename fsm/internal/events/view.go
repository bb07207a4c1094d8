// Package events has the logs of changes that watchers follow: run events, service events, the
// news of all resources, and the history of a machine. It must not know the rule that makes a
// change.
package events

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
)

// View has the queries of the logs.
type View struct{ s *core.State }

// NewView returns the queries of a frozen state.
func NewView(s *core.State) View { return View{s} }

// kept has the cursors of the oldest and the newest event that a log keeps.
type kept struct{ first, last uint64 }

// fromCurrentState is the effect of a watch without a cursor, if it begins with the current state.
const fromCurrentState = "start from the current state"

// read returns at most limit events with a cursor above after, oldest first. A cursor that is
// too old to resume from, or that this cluster never issued, is OutOfRange; effect is what a watch
// without a cursor does.
func read[P proto.Message](log *table.Sequence[P], kept kept, after uint64, limit int, effect string) ([]P, error) {
	if after+1 < kept.first || after > kept.last {
		return nil, refusal.New(refusal.OutOfRange, refusal.ReasonCursorGone,
			"cursor %d is not kept: events %d to %d are; watch again without a cursor to %s",
			after, kept.first, kept.last, effect)
	}
	return log.Page(after, limit), nil
}

package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/runlog"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// View is the state at one index. It never changes, and the caller owns every message it
// returns. Its queries are in the file of their resource, next to the commands.
type View struct {
	*state
	codec   *runlog.Codec
	decoded *plans.Cache
	stage   *readStage
}

// Index returns the index of the last entry that the view includes.
func (v *View) Index() uint64 { return v.meta.GetAppliedIndex() }

// Meta returns the state outside the tables: epoch, leader, cluster id, feature level.
func (v *View) Meta() *internalv1.Meta { return proto.CloneOf(v.meta) }

// Sizes returns the number of records in each table, by table name.
func (v *View) Sizes() map[string]int {
	sizes := map[string]int{}
	for _, t := range v.tables() {
		sizes[t.Name()] = t.Len()
	}
	return sizes
}

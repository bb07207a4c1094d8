package fsm

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	"github.com/holdfast-metal/holdfast/fsm/internal/runlog"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// tx applies one command. A command checks first and writes last, so one that is refused has
// changed nothing.
type tx struct {
	*state
	codec   *runlog.Codec
	decoded *plans.Cache
	index   uint64 // of the log entry
	cmd     *internalv1.Command
	now     *timestamppb.Timestamp // never decreases, even if a proposer's clock does
}

// newTx returns the transaction of a command, and advances the record's clock.
func newTx(s *state, codec *runlog.Codec, decoded *plans.Cache, index uint64, c *internalv1.Command) *tx {
	s.tick(c)
	return &tx{state: s, codec: codec, decoded: decoded, index: index, cmd: c, now: proto.CloneOf(s.meta.GetNow())}
}

// Package core has the replicated state, a set of tables, and the transaction in which a command
// changes it: its clock, feature level and leases. It must not know the rules of a resource.
package core

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/runlog"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Tx applies one command. A command checks first and writes last, so one that is refused has
// changed nothing, except for a condition that notes the refusal.
type Tx struct {
	*State
	Codec   *runlog.Codec
	Index   uint64 // of the log entry
	Command *internalv1.Command
	Now     *timestamppb.Timestamp // shared; never decreases, even if a proposer's clock does
}

// NewTx returns the transaction of a command, and advances the record's clock.
func NewTx(s *State, codec *runlog.Codec, index uint64, c *internalv1.Command) *Tx {
	s.tick(c)
	return &Tx{State: s, Codec: codec, Index: index, Command: c, Now: s.Meta.GetNow()}
}

// Has reports whether the rules of a feature level apply.
func (t *Tx) Has(level uint32) bool { return t.Meta.GetFeatureLevel() >= level }

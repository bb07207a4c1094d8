package fsm

import (
	"fmt"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// understood returns an error if a build whose highest feature level is the given one does not
// know every part of a command. Protobuf would ignore a field it does not know, and this peer's
// state would silently differ from the others'. known is true if no part is unknown.
func understood(c *internalv1.Command, highest uint32, known bool) error {
	if l := c.GetFeatureLevel(); l > highest {
		return fmt.Errorf("command needs feature level %d, this build has %d", l, highest)
	}
	if !known {
		if err := core.Known(c.ProtoReflect()); err != nil {
			return err
		}
	}
	if c.GetOp() == nil {
		return fmt.Errorf("command has no operation that this build knows")
	}
	if l := c.GetRaiseFeatureLevel().GetLevel(); l > highest {
		return fmt.Errorf("command raises the feature level to %d, this build has %d", l, highest)
	}
	return nil
}

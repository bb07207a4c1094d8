package fsm

import (
	"fmt"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// understood returns an error if this build does not know every part of a command. Protobuf
// would ignore a field it does not know, and this peer's state would silently differ from the
// others'. known is true if no part is unknown.
func understood(c *internalv1.Command, known bool) error {
	if l := c.GetFeatureLevel(); l > core.FeatureLevel {
		return fmt.Errorf("command needs feature level %d, this build has %d", l, core.FeatureLevel)
	}
	if !known {
		if err := core.Known(c.ProtoReflect()); err != nil {
			return err
		}
	}
	if c.GetOp() == nil {
		return fmt.Errorf("command has no operation that this build knows")
	}
	if l := c.GetRaiseFeatureLevel().GetLevel(); l > core.FeatureLevel {
		return fmt.Errorf("command raises the feature level to %d, this build has %d", l, core.FeatureLevel)
	}
	return nil
}

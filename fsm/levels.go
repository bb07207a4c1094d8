package fsm

import "github.com/holdfast-metal/holdfast/fsm/internal/core"

// Feature levels. A new command, field or rule of Apply takes effect when the cluster reaches
// the level that introduced it.
const (
	Level1 = core.Level1
)

// FeatureLevel is the highest level that this build understands.
const FeatureLevel = core.FeatureLevel

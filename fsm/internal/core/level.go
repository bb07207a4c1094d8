package core

// Feature levels. A new command, field or rule of Apply takes effect when the cluster reaches
// the level that introduced it. Until the last peer is upgraded, peers of two builds then
// compute the same state.
const (
	Level1 uint32 = 1
)

// FeatureLevel is the highest level that this build understands.
const FeatureLevel = Level1

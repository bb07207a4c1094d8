package core

// Feature levels. A new command, field or rule of Apply takes effect when the cluster reaches
// the level that introduced it. Until the last peer is upgraded, peers of two builds then
// compute the same state.
const (
	Level1 uint32 = 1
	// Level2 adds boot mode "keep", per-machine agent tokens, the bounded clock, ramps of
	// destructive plans, required parameters and notes of slow readings.
	Level2 uint32 = 2
	// Level3 adds waves.
	Level3 uint32 = 3
)

// FeatureLevel is the highest level that this build understands.
const FeatureLevel = Level3

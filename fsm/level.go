package fsm

// Feature levels. A new command, field or rule of Apply takes effect when the cluster has reached
// the level that introduced it: peers of two builds then compute the same state until the last one
// is upgraded.
const (
	Level1 uint32 = 1
	Level2 uint32 = 2 // boot mode "keep", per-machine agent tokens, bounded clock, ramps of destructive plans, required parameters
)

// FeatureLevel is the highest level that this build understands.
const FeatureLevel = Level2

// Has reports whether the cluster has reached a feature level. Commands and fields of a level may
// be proposed from then on.
func (v *View) Has(level uint32) bool { return v.meta.GetFeatureLevel() >= level }

// has reports whether the rules of a feature level apply.
func (t *tx) has(level uint32) bool { return t.meta.GetFeatureLevel() >= level }

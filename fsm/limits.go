package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/lifetime"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The largest numbers of things in one command. A proposer of more makes several commands.
const (
	MaxHeartbeats   = limits.Heartbeats   // leases of a CheckpointLeases
	MaxPoolReports  = limits.PoolReports  // leases of pools among these
	MaxExpiries     = limits.Expiries     // leases of an ExpireLeases
	MaxObserved     = limits.Observed     // machines of an ObserveConditions
	MaxObservations = limits.Observations // conditions of all these
	MaxAppends      = limits.Appends      // runs of an AppendRunLogs
	MaxChunks       = limits.Chunks       // chunks of a LogAppend
	MaxDropTokens   = limits.DropTokens   // tokens of a DropTokens
	MaxSwept        = limits.Swept        // pools of a SweepPools
	MaxResealed     = limits.Resealed     // secrets of a ResealSecrets
	MaxEvidence     = limits.Evidence     // values of an attempt's evidence
	MaxDenials      = limits.Denials      // events of a RecordDenials
	MaxSessions     = limits.Sessions     // sessions of a NoteSessions
	MaxDropSessions = limits.DropSessions // sessions of a DropSessions
	MaxDropConsoles = limits.DropConsoles // console sessions of a DropConsoles
	MaxOutput       = limits.Output       // pieces of output of a RecordConsole
)

// Lifetime is how long the leases of a kind last, and how often they are renewed.
type Lifetime = lifetime.Lifetime

// LifetimeOf returns the lifetime of the leases of a kind, the only table of them.
func LifetimeOf(kind internalv1.LeaseRef_Kind) Lifetime { return lifetime.Of(kind) }

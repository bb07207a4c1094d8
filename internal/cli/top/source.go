package top

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Source provides the figures. It switches to another peer after a failure; the user sees its
// error meanwhile.
type Source interface {
	// Status returns the state of the control plane, as seen by one peer.
	Status(ctx context.Context) (*holdfastv1.ClusterStatus, error)
	// Fleet counts the machines.
	Fleet(ctx context.Context) (*Fleet, error)
	// WatchRuns sends the active runs, and then each transition, until the context ends.
	WatchRuns(ctx context.Context, f func(*holdfastv1.RunEvent) error) error
}

// Fleet holds the counts of all machines.
type Fleet struct {
	Total  int
	States map[holdfastv1.EffectiveState_Value]int
	Absent int     // of the ready ones: in service by their phase, and in no cluster
	Issues []Issue // the most urgent first
}

// Issue is a machine that needs attention.
type Issue struct {
	Machine string
	Urgency render.Text
	Rank    int // the smaller, the sooner
	Since   time.Time
	State   holdfastv1.EffectiveState_Value
	Where   string // rack, pool
	Run     string // the active one
	What    []string
}

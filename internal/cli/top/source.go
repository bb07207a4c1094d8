package top

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Source is where the figures come from. It finds another peer by itself when one fails; an error
// is what is said to the user meanwhile.
type Source interface {
	// Status is how the control plane is, as one peer sees it.
	Status(ctx context.Context) (*holdfastv1.ClusterStatus, error)
	// Fleet counts the machines.
	Fleet(ctx context.Context) (*Fleet, error)
	// WatchRuns sends the active runs, and then each transition of one, until the context ends.
	WatchRuns(ctx context.Context, f func(*holdfastv1.RunEvent) error) error
}

// Fleet is all machines, counted.
type Fleet struct {
	Total  int
	States map[holdfastv1.EffectiveState_Value]int
	Issues []Issue // the most urgent first
}

// Issue is a machine that somebody should look at.
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

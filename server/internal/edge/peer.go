package edge

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Cluster commits commands and serves reads (*cluster.Peer).
type Cluster interface {
	// Apply commits a command. The error is an *fsm.Error if the state refused the
	// command, or a *outcome.Error.
	Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error)
	// View returns a state that is as fresh as the context requires; the default is
	// linearizable.
	View(ctx context.Context) (*fsm.View, error)
}

// State is this peer's own copy of the replicated state (*fsm.FSM).
type State interface {
	View() *fsm.View
	Changed() <-chan struct{} // closed at the next change
	// Try returns the result that the last of some commands would have now after the others, or the
	// first refusal, and changes nothing.
	Try(cmds ...*internalv1.Command) fsm.Result
}

// Peer is the peer that a service runs on.
type Peer struct {
	Cluster  Cluster
	State    State
	Log      *slog.Logger
	Draining <-chan struct{} // closed when the peer shuts down
	// DenyURL returns an error for a URL that no peer may fetch. Nil allows all.
	DenyURL func(url string) error
	// Now is the clock of Time; nil: time.Now.
	Now func() time.Time
}

// Time returns the cluster's time, which a wrong clock of this host does not move.
func (p *Peer) Time() time.Time {
	if p.Now == nil {
		return time.Now()
	}
	return p.Now()
}

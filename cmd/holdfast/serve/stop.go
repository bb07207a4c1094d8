package serve

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/executor/runs"
	"github.com/holdfast-metal/holdfast/fsm"
)

// cancelTime is the time limit for runs to end when a stop cancels them: a command must be
// killed, or a press must take effect (providers.Settler: up to 30 s).
const cancelTime = 35 * time.Second

// peer is a running peer, for its status and for its stop.
type peer struct {
	cfg  *Config
	log  *slog.Logger
	node *cluster.Peer
	exec *runs.Executor

	stopping sync.Once
	cancels  bool // it cancels active runs when it stops
}

// line returns the state of the peer as one line.
func (p *peer) line(state *fsm.FSM) string {
	leader, _, _ := p.node.Leader()
	return statusLine(p.node.Role(), leader, state.View().Index(), p.node.Readiness())
}

// statusLine is the text that systemctl status shows.
func statusLine(role, leader string, index uint64, why error) string {
	line := fmt.Sprintf("%s, index %d", role, index)
	if role != "leader" && leader != "" {
		line = fmt.Sprintf("%s of %s, index %d", role, leader, index)
	}
	if why != nil {
		line += fmt.Sprintf(": not ready: %.500s", why)
	}
	return line
}

// beforeStop cancels active runs if the stop is meant to, while the executor can still release
// their machines.
func (p *peer) beforeStop(ctx context.Context) {
	if p.node.Role() != "leader" || !p.cancelsRuns(ctx) {
		return
	}
	ctx, stop := context.WithTimeout(ctx, cancelTime)
	defer stop()
	if err := p.exec.Cancel(ctx, p.whyCanceled()); err != nil {
		p.log.Warn("not all active runs have ended by themselves", "error", err)
	}
}

// beforeHandover cancels the remaining runs.
func (p *peer) beforeHandover(ctx context.Context) {
	if !p.cancelsRuns(ctx) {
		return
	}
	if err := p.exec.CancelActive(ctx, p.whyCanceled()); err != nil {
		p.log.Warn("not all active runs were canceled", "error", err)
	}
}

// cancelsRuns reports whether a stop cancels active runs: it is configured, or no other peer
// could continue them (docs/concepts.md).
func (p *peer) cancelsRuns(ctx context.Context) bool {
	p.stopping.Do(func() { // once per stop, because all peers are asked
		voters := 0
		for _, peer := range p.node.Status(ctx).GetPeers() {
			if peer.GetSuffrage() == "voter" {
				voters++
			}
		}
		p.cancels = p.cfg.OnShutdown == "cancel" || voters <= 1
	})
	return p.cancels
}

func (p *peer) whyCanceled() string { return "peer " + p.cfg.PeerID + " was stopped" }

// stopTime is the time limit for active calls when a peer stops.
const stopTime = 3 * time.Second

func stopGracefully(s *grpc.Server) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.GracefulStop()
	}()
	select {
	case <-done:
	case <-time.After(stopTime):
		s.Stop()
		<-done
	}
}

// Package retention has the leader tasks that end the life of records: GC deletes old records of
// the state, and Archiver moves ended runs to the archive. The FSM checks each command again, so
// neither can delete what is still needed.
package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	gcPause = 20 * time.Second
	// deadTokenFor is how long a revoked or expired token stays in the state, for audits.
	deadTokenFor = 30 * 24 * time.Hour
	maxMissing   = 100 // services per pass, one per command
)

// GC is the leader task that removes old records: deregistered pools, tokens that
// expired or were revoked long ago, sessions that have expired, console sessions whose time is up,
// and services that have been missing for long.
type GC struct {
	proposer task.Proposer
	state    task.State
	log      *slog.Logger
}

// NewGC returns a GC; Run it in each term.
func NewGC(p task.Proposer, s task.State, log *slog.Logger) *GC {
	return &GC{proposer: p, state: s, log: log}
}

// Run makes a pass at once, so that short terms collect garbage too, and then every 20 s
// until the term ends.
func (g *GC) Run(ctx context.Context, t leader.Term) error {
	for ok := true; ok; ok = wait.Sleep(ctx, gcPause) == nil {
		for _, cmd := range g.due(g.state.View().Now()) {
			cmd.Epoch = t.Epoch
			_, err := g.proposer.Apply(ctx, cmd)
			if refused, ok := errors.AsType[*fsm.Error](err); ok && refused.Reason == fsm.ReasonStaleEpoch {
				return fmt.Errorf("collect garbage: %w", err)
			}
			if err != nil && ctx.Err() == nil {
				g.log.Warn("garbage collection failed, will retry", "error", err)
			}
		}
	}
	return nil
}

// due returns the commands that remove old records, by the recorded clock: a wrong clock of this
// host makes nothing due. The FSM checks each record again.
func (g *GC) due(now time.Time) []*internalv1.Command {
	view := g.state.View()
	var cmds []*internalv1.Command
	if pools := view.DrainedPools(now); len(pools) > 0 {
		pools = pools[:min(len(pools), fsm.MaxSwept)] // the others in the next pass
		cmds = append(cmds, &internalv1.Command{Op: &internalv1.Command_SweepPools{
			SweepPools: &internalv1.SweepPools{PoolIds: pools},
		}})
	}
	var dead []string
	for tok := range view.Tokens("") {
		if len(dead) == fsm.MaxDropTokens {
			break
		}
		for _, end := range []*timestamppb.Timestamp{tok.GetRevokedAt(), tok.GetExpiresAt()} {
			if end != nil && end.AsTime().Before(now.Add(-deadTokenFor)) {
				dead = append(dead, tok.GetTokenId())
				break
			}
		}
	}
	if len(dead) > 0 {
		cmds = append(cmds, &internalv1.Command{Op: &internalv1.Command_DropTokens{
			DropTokens: &internalv1.DropTokens{TokenIds: dead},
		}})
	}
	if ids := view.DueSessions(now, fsm.MaxDropSessions); len(ids) > 0 {
		cmds = append(cmds, &internalv1.Command{Op: &internalv1.Command_DropSessions{
			DropSessions: &internalv1.DropSessions{SessionIds: ids},
		}})
	}
	if ids := view.DueConsoles(now, fsm.MaxDropConsoles); len(ids) > 0 {
		cmds = append(cmds, &internalv1.Command{Op: &internalv1.Command_DropConsoles{
			DropConsoles: &internalv1.DropConsoles{SessionIds: ids},
		}})
	}
	for _, id := range view.MissingServices(now, maxMissing) {
		cmds = append(cmds, &internalv1.Command{Op: &internalv1.Command_DeregisterService{
			DeregisterService: &internalv1.DeregisterService{Id: id, ByServer: true},
		}})
	}
	return cmds
}

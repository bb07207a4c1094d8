package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	janitorPause = 20 * time.Second
	// deadTokenFor is how long a token that was revoked or has expired stays recorded, for those
	// who look for it.
	deadTokenFor = 30 * 24 * time.Hour
	maxDropped   = 1000 // tokens by one command
	maxMissing   = 100  // services at once, each by a command
	// beatEvery keeps the record's clock near the time in a cluster that is idle.
	beatEvery = 4 * time.Minute
)

// Janitor is the leader task that removes what is over: pools that were deregistered, tokens that
// have been dead for long, services that have been missing for long.
type Janitor struct {
	proposer Proposer
	state    State
	log      *slog.Logger
}

// NewJanitor returns a Janitor; Run it in each term.
func NewJanitor(p Proposer, s State, log *slog.Logger) *Janitor {
	return &Janitor{proposer: p, state: s, log: log}
}

// Run polls at once, so that leaders that change often put things away too, and every 20 s until
// the term ends.
func (j *Janitor) Run(ctx context.Context, t cluster.Term) error {
	beat := time.Now()
	for ok := true; ok; ok = sleep(ctx, janitorPause) == nil {
		if j.state.View().Has(fsm.Level2) && time.Since(beat) >= beatEvery {
			beat = time.Now()
			if _, err := j.proposer.Apply(ctx, &internalv1.Command{FeatureLevel: 1, Op: &internalv1.Command_Beat{Beat: &internalv1.Beat{}}}); err != nil && ctx.Err() == nil {
				j.log.Warn("the record's clock was not moved on: trying again", "error", err)
			}
			if ahead := j.state.View().ClockAhead(); ahead > 0 {
				j.log.Warn("this leader's clock is far ahead of the record's and not followed: check it", "ahead", ahead)
			}
		}
		for _, cmd := range j.due(time.Now()) {
			cmd.FeatureLevel, cmd.Epoch = 1, t.Epoch
			_, err := j.proposer.Apply(ctx, cmd)
			var refused *fsm.Error
			if errors.As(err, &refused) && refused.Reason == fsm.ReasonStaleEpoch {
				return fmt.Errorf("put away what is over: %w", err)
			}
			if err != nil && ctx.Err() == nil {
				j.log.Warn("not put away what is over: trying again", "error", err)
			}
		}
	}
	return nil
}

// due returns the commands for what is over now. The FSM looks again.
func (j *Janitor) due(now time.Time) []*internalv1.Command {
	view := j.state.View()
	var cmds []*internalv1.Command
	if pools := view.DrainedPools(now); len(pools) > 0 {
		cmds = append(cmds, &internalv1.Command{Op: &internalv1.Command_SweepPools{SweepPools: &internalv1.SweepPools{PoolIds: pools}}})
	}
	var dead []string
	for tok := range view.Tokens("") {
		if len(dead) == maxDropped {
			break
		}
		for _, end := range []*timestamppb.Timestamp{tok.GetRevokedAt(), tok.GetExpiresAt()} {
			if end != nil && end.AsTime().Before(now.Add(-deadTokenFor)) {
				dead = append(dead, tok.GetTokenId())
				break
			}
		}
	}
	if view.Has(fsm.Level2) { // older peers keep out what the server has deregistered
		for _, id := range view.MissingServices(now, maxMissing) {
			cmds = append(cmds, &internalv1.Command{Op: &internalv1.Command_DeregisterService{DeregisterService: &internalv1.DeregisterService{Id: id, ByServer: true}}})
		}
	}
	if len(dead) > 0 {
		cmds = append(cmds, &internalv1.Command{Op: &internalv1.Command_DropTokens{DropTokens: &internalv1.DropTokens{TokenIds: dead}}})
	}
	return cmds
}

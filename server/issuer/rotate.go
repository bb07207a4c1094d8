package issuer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	rotateEvery  = time.Minute      // between two looks at the keys
	rotateAgain  = time.Second      // after a command that failed
	giveUpKey    = 5 * time.Minute  // that the newest key cannot be opened, before another takes its place
	commandLimit = 10 * time.Second // of one command
)

// Proposer commits commands (*cluster.Node).
type Proposer interface {
	Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error)
}

// Rotator is the leader task that makes signing keys and lets them retire.
type Rotator struct {
	schedule schedule
	node     Proposer
	state    secrets.State
	keys     *secrets.Keyring
	log      *slog.Logger
}

// NewRotator returns a Rotator whose keys sign for a period (default 30 days); the next one is
// published ahead of that, and the one before verifies for a while after it. Log may be nil.
func NewRotator(period time.Duration, node Proposer, state secrets.State, keys *secrets.Keyring, log *slog.Logger) *Rotator {
	if period <= 0 {
		period = DefaultRotation
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := schedule{period: period, ahead: min(24*time.Hour, period/4), overlap: min(24*time.Hour, period/4)}
	s.overlap = max(s.overlap, DefaultTTL+skew) // tokens that it has signed
	return &Rotator{schedule: s, node: node, state: state, keys: keys, log: log}
}

// Run implements cluster.LeaderTask. It ends with the leadership only: without a key, nothing is
// made until one comes.
func (r *Rotator) Run(ctx context.Context, t cluster.Term) error {
	var lost time.Time // since when the newest key cannot be opened
	for {
		wait := min(rotateEvery, r.schedule.ahead/2)
		changed := r.keys.Changed()
		if err := r.turn(ctx, t, time.Now(), &lost); err != nil && ctx.Err() == nil {
			wait = rotateAgain
			if stale(err) {
				r.log.Debug("signing keys not changed: another leader has", "error", err)
			} else {
				r.log.Warn("signing keys of the built-in issuer not changed: trying again", "error", err)
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-changed:
			timer.Stop()
		case <-timer.C:
		}
	}
}

func stale(err error) bool {
	var refusal *fsm.Error
	return errors.As(err, &refusal) && refusal.Code == fsm.Aborted
}

// turn does what has to be done now.
func (r *Rotator) turn(ctx context.Context, t cluster.Term, now time.Time, lost *time.Time) error {
	if _, ok := r.keys.Primary(); !ok {
		return nil // the issuer says so to whoever asks
	}
	keys := r.state.View().SigningKeys()
	after := ""
	if len(keys) > 0 {
		after = keys[len(keys)-1].GetKeyId()
	}
	keep, from, changed := r.schedule.plan(keys, now, func(k *internalv1.SigningKey) bool { return r.usable(k, now, lost) })
	if !changed {
		return nil
	}
	if from != nil {
		k, err := newKey(r.keys, now, *from)
		if err != nil {
			return err
		}
		keep = append(keep, k)
	}
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	_, err := r.node.Apply(ctx, &internalv1.Command{FeatureLevel: 1, Epoch: t.Epoch, Principal: "system", Op: &internalv1.Command_PutSigningKeys{
		PutSigningKeys: &internalv1.PutSigningKeys{Keys: keep, AfterKeyId: after}}})
	if err != nil {
		return fmt.Errorf("store signing keys: %w", err)
	}
	newest := keep[len(keep)-1]
	r.log.Info("signing keys of the built-in issuer changed", "keys", len(keep), "newest", newest.GetKeyId(), "signs_from", newest.GetSignsFrom().AsTime())
	return nil
}

// usable reports whether the newest key can be opened here, or might be soon: when its secrets key
// is gone for good, another takes its place.
func (r *Rotator) usable(k *internalv1.SigningKey, now time.Time, lost *time.Time) bool {
	if _, err := openSigner(r.keys, k); err == nil {
		*lost = time.Time{}
		return true
	} else if lost.IsZero() {
		*lost = now
		r.log.Error("the signing key of the built-in issuer cannot be opened: another will take its place", "in", giveUpKey, "error", err)
	}
	return now.Sub(*lost) < giveUpKey
}

package issuer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	rotateEvery  = time.Minute      // between two checks of the keys
	rotateAgain  = time.Second      // retry delay after a failed command
	giveUpKey    = 5 * time.Minute  // how long the newest key may be undecryptable before it is replaced
	commandLimit = 10 * time.Second // timeout of one command
)

// Proposer commits commands (*cluster.Peer).
type Proposer interface {
	Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error)
}

// Rotator is the leader task that creates and retires signing keys.
type Rotator struct {
	schedule schedule
	node     Proposer
	state    secrets.State
	keys     *secrets.Keyring
	now      func() time.Time
	log      *slog.Logger
}

// NewRotator returns a Rotator. Each key signs for period (default 30 days). The next key
// is published ahead of time, and the previous one stays valid for verification for a
// while. log may be nil.
func NewRotator(
	period time.Duration, node Proposer, state secrets.State, keys *secrets.Keyring, now func() time.Time,
	log *slog.Logger,
) *Rotator {
	if period <= 0 {
		period = DefaultRotation
	}
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	s := schedule{period: period, ahead: min(24*time.Hour, period/4), overlap: min(24*time.Hour, period/4)}
	s.overlap = max(s.overlap, DefaultTTL+skew) // outlive the tokens that the key has signed
	return &Rotator{schedule: s, node: node, state: state, keys: keys, now: now, log: log}
}

// Run implements leader.Task. It returns only when the leadership ends. Without a
// secrets key it waits until there is one.
func (r *Rotator) Run(ctx context.Context, t leader.Term) error {
	var lost time.Time // since when the newest key cannot be decrypted
	for {
		wait := min(rotateEvery, r.schedule.ahead/2)
		changed := r.keys.Changed()
		if err := r.turn(ctx, t, r.now(), &lost); err != nil && ctx.Err() == nil {
			wait = rotateAgain
			if stale(err) {
				r.log.Debug("signing keys already changed by another leader", "error", err)
			} else {
				r.log.Warn("changing the built-in issuer's signing keys failed, will retry", "error", err)
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

// turn makes the changes that are due now.
func (r *Rotator) turn(ctx context.Context, t leader.Term, now time.Time, lost *time.Time) error {
	if _, ok := r.keys.Primary(); !ok {
		return nil // ready returns an error to clients
	}
	keys := r.state.View().SigningKeys()
	after := ""
	if len(keys) > 0 {
		after = keys[len(keys)-1].GetKeyId()
	}
	usable := func(k *internalv1.SigningKey) bool { return r.usable(k, now, lost) }
	keep, from, changed := r.schedule.plan(keys, now, usable)
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
	_, err := r.node.Apply(ctx, &internalv1.Command{
		Epoch:     t.Epoch,
		Principal: "system",
		Op: &internalv1.Command_PutSigningKeys{
			PutSigningKeys: &internalv1.PutSigningKeys{Keys: keep, AfterKeyId: after},
		},
	})
	if err != nil {
		return fmt.Errorf("store signing keys: %w", err)
	}
	newest := keep[len(keep)-1]
	r.log.Info("signing keys of the built-in issuer changed",
		"keys", len(keep), "newest", newest.GetKeyId(), "signs_from", newest.GetSignsFrom().AsTime())
	return nil
}

// usable reports whether the newest key can be decrypted here or may be soon. If it cannot
// for giveUpKey, its secrets key is considered lost, and the key is replaced.
func (r *Rotator) usable(k *internalv1.SigningKey, now time.Time, lost *time.Time) bool {
	if _, err := openSigner(r.keys, k); err == nil {
		*lost = time.Time{}
		return true
	} else if lost.IsZero() {
		*lost = now
		r.log.Error("cannot decrypt the built-in issuer's signing key, will replace it", "in", giveUpKey, "error", err)
	}
	return now.Sub(*lost) < giveUpKey
}

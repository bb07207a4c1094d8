package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

// tokens continuously uses two tokens on every peer: one that is revoked, and one that
// stays valid.
type tokens struct {
	c             *harness.Cluster
	revoked, good harness.Token
	stop          context.CancelFunc
	wg            sync.WaitGroup

	mu      sync.Mutex
	asked   bool      // the revocation was requested: calls may be refused
	acked   time.Time // when it was acknowledged; zero before
	index   uint64    // of a state that has it; zero if unknown
	refused int
	unaware int // stale reads answered by a peer that did not know of the revocation
	errs    []error
}

// watchTokens creates both tokens, checks that they work everywhere, and begins.
func watchTokens(ctx context.Context, c *harness.Cluster) (w *tokens, err error) {
	w = &tokens{c: c}
	if w.revoked, err = c.NewToken(ctx, "to-be-revoked"); err != nil {
		return nil, err
	}
	if w.good, err = c.NewToken(ctx, "to-stay"); err != nil {
		return nil, err
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.stop = stop
	for _, p := range c.Peers() {
		for _, t := range []harness.Token{w.revoked, w.good} {
			k, err := c.Caller(p, t.Secret)
			if err == nil {
				err = works(ctx, k)
			}
			if err != nil {
				return nil, errors.Join(fmt.Errorf("peer %s, a new token: %w", p.ID, err), w.end())
			}
			if t == w.good {
				k.Close()
				continue
			}
			for _, kind := range []func(context.Context, *harness.Caller){w.reads, w.writes, w.stale} {
				w.wg.Go(func() {
					for background.Err() == nil {
						kind(background, k)
						_ = wait.Sleep(background, 10*time.Millisecond)
					}
				})
			}
			go func() { // ends with the three
				w.wg.Wait()
				k.Close()
			}()
		}
	}
	return w, nil
}

// works blocks until a token is accepted for a read and a write, as it must be from its
// creation on.
func works(ctx context.Context, k *harness.Caller) error {
	for _, call := range []func(context.Context) (uint64, error){k.Read, k.Write} {
		for {
			_, err := call(ctx)
			if err == nil {
				break
			}
			if status.Code(err) == codes.Unauthenticated || status.Code(err) == codes.PermissionDenied {
				return err
			}
			if werr := wait.Sleep(ctx, 50*time.Millisecond); werr != nil {
				return errors.Join(werr, err)
			}
		}
	}
	return nil
}

// ask records that the revocation is about to be requested.
func (w *tokens) ask() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = true
}

// ack records that the revocation was acknowledged.
func (w *tokens) ack() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked = time.Now()
}

// judge checks the outcome of a read or a write that began at a time.
func (w *tokens) judge(what string, k *harness.Caller, began time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.acked.IsZero() || began.Before(w.acked):
		if c := status.Code(err); !w.asked && (c == codes.Unauthenticated || c == codes.PermissionDenied) {
			w.errs = append(w.errs, fmt.Errorf("peer %s, %s: a good token was refused: %w", k.Peer.ID, what, err))
		}
	case err == nil:
		w.errs = append(w.errs, fmt.Errorf("%w: peer %s, %s, begun %s after it",
			harness.ErrAccepted, k.Peer.ID, what, began.Sub(w.acked)))
	case status.Code(err) == codes.Unauthenticated:
		w.refused++
	}
}

func (w *tokens) reads(ctx context.Context, k *harness.Caller) {
	began := time.Now()
	_, err := k.Read(ctx)
	w.judge("linearizable read", k, began, err)
}

func (w *tokens) writes(ctx context.Context, k *harness.Caller) {
	began := time.Now()
	_, err := k.Write(ctx)
	w.judge("write", k, began, err)
}

// stale reads the peer's own state. A peer that has not received the revocation cannot know
// of it, but one whose state has it must refuse. The returned index is that of the state
// after the call, so only the second of two calls proves anything.
func (w *tokens) stale(ctx context.Context, k *harness.Caller) {
	w.mu.Lock()
	acked := !w.acked.IsZero()
	w.mu.Unlock()
	first, err := k.Stale(ctx)
	w.mu.Lock()
	known := w.index
	if acked && err == nil && (known == 0 || first < known) {
		w.unaware++
	}
	w.mu.Unlock()
	if err != nil || known == 0 || first < known {
		return
	}
	began := time.Now()
	if second, err := k.Stale(ctx); err == nil && second >= known {
		w.judge(fmt.Sprintf("stale read of a state at index %d, which has it since %d,", second, known), k, began, nil)
	}
}

// learn finds an index whose state includes the revocation.
func (w *tokens) learn(ctx context.Context) error {
	for _, p := range w.c.Peers() {
		k, err := w.c.Caller(p, "")
		if err != nil {
			return err
		}
		index, err := k.Read(ctx)
		k.Close()
		if err == nil && index > 0 {
			w.mu.Lock()
			w.index = index
			w.mu.Unlock()
			return nil
		}
	}
	return errors.New("no peer returns an index whose state includes the revocation")
}

// settled blocks until every peer refuses the one token and accepts the other.
func (w *tokens) settled(ctx context.Context) error {
	for _, p := range w.c.Peers() {
		bad, err := w.c.Caller(p, w.revoked.Secret)
		if err != nil {
			return err
		}
		defer bad.Close()
		good, err := w.c.Caller(p, w.good.Secret)
		if err != nil {
			return err
		}
		defer good.Close()
		if err := bad.Refused(ctx); err != nil {
			return err
		}
		if err := works(ctx, good); err != nil {
			return fmt.Errorf("peer %s, a token that was not revoked: %w", p.ID, err)
		}
	}
	return nil
}

// end stops the calls and returns the violations.
func (w *tokens) end() error {
	w.stop()
	w.wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.errs[:min(len(w.errs), 5)]...)
}

// revokeToken revokes a token in use. At the acknowledgement the leader dies or is cut off,
// or a follower was cut off before and does not receive it. From then on no peer may accept
// the token, including peers that come back or are restarted.
func revokeToken(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	w, err := watchTokens(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := wait.Sleep(ctx, 500*time.Millisecond); err != nil {
		return nil, errors.Join(err, w.end())
	}
	mend, how, err := w.revoke(ctx, rng)
	if err != nil {
		return nil, errors.Join(err, w.end())
	}
	restarted := anyPeer(c, rng)
	return func(ctx context.Context) error {
		err := mend(ctx)
		if err == nil {
			err = w.aftermath(ctx, restarted.Kill, restarted.Start)
		}
		err = errors.Join(err, w.end())
		c.Log.Info("a token was revoked", "meanwhile", how,
			"refused", w.refused, "stale_unaware", w.unaware, "restarted", restarted.ID)
		return err
	}, nil
}

// revoke revokes the token in one of three ways.
func (w *tokens) revoke(ctx context.Context, rng *rand.Rand) (mend Heal, how string, err error) {
	c := w.c
	leader, err := c.Leader(ctx)
	if err != nil {
		return nil, "", err
	}
	way := rng.IntN(3)
	if c.Net == nil {
		way = 0
	}
	if way == 2 {
		how = "a follower was cut off"
		if mend, err = isolate(c, (c.Index(leader)+1+rng.IntN(2))%3); err != nil {
			return nil, how, err
		}
	}
	w.ask()
	if err := c.Revoke(ctx, w.revoked); err != nil {
		return nil, how, err
	}
	w.ack()
	switch way {
	case 0:
		how, mend, err = "the leader was killed", leader.Start, leader.Kill()
	case 1:
		how = "the leader was cut off"
		mend, err = isolate(c, c.Index(leader))
	}
	return mend, how, err
}

// aftermath restarts a peer, and waits for the final responses of all.
func (w *tokens) aftermath(ctx context.Context, kill func() error, start func(context.Context) error) error {
	if err := w.c.WaitReady(ctx); err != nil {
		return err
	}
	if err := errors.Join(w.learn(ctx), kill(), start(ctx)); err != nil {
		return err
	}
	if err := w.c.WaitReady(ctx); err != nil {
		return err
	}
	return w.settled(ctx)
}

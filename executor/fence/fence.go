// Package fence keeps an earlier leader from acting on a machine at the same time as the present
// one. An effect is sent only within a short time after a majority has confirmed the term, and a
// new leader waits until that time has passed for all earlier terms (decision 0004 has the proof).
// It must not know what an effect does.
package fence

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/providers"
)

// A confirmation of the term permits effects on the machine of an attempt for a short time. It is
// never extended without asking a majority again.
const (
	// confirmValid bounds the age of a confirmation when a provider is called. It is far below any
	// election timeout.
	confirmValid = 100 * time.Millisecond

	// EffectValid bounds the time from the request for a confirmation until the last byte of the
	// effect has been sent.
	EffectValid = 500 * time.Millisecond

	// slack covers clocks that run at different rates, and the time from the provider's check to
	// the kernel's send.
	slack = 100 * time.Millisecond

	// Age is the age of a term after which no effect of an earlier leader can reach a machine any
	// more. Earlier leaders requested their last confirmation before this one was elected.
	Age = EffectValid + providers.DeliverTime + slack
)

// Fence guards the effects of one term.
type Fence struct {
	Began   time.Time                       // of the term; no earlier than the election
	Confirm func(ctx context.Context) error // returns nil if a majority confirms that the term lasts
}

// Await blocks until no effect of an earlier leader can arrive any more. Observations after that
// stay true until this leader acts.
func (f Fence) Await(ctx context.Context) error {
	return wait.Sleep(ctx, time.Until(f.Began.Add(Age)))
}

// permit asks a majority to confirm the term. It returns the time after which no effect may be sent
// on the strength of that confirmation.
func (f Fence) permit(ctx context.Context) (notAfter time.Time, err error) {
	asked := time.Now()
	if err := f.Confirm(ctx); err != nil {
		return time.Time{}, err
	}
	if took := time.Since(asked); took >= confirmValid {
		return time.Time{}, fmt.Errorf("confirm the term: a majority answered after %s, limit %s", took, confirmValid)
	}
	return asked.Add(EffectValid), nil
}

// Effect is a change of the outside world.
type Effect struct {
	// Do sends the request soon after the confirmation, or not at all: see providers.InTime.
	Do func(ctx context.Context) error

	Confirmed func()                     // called once, before the first Do; required
	Late      func(times int, err error) // called after each Do that was too late and sent nothing; required

	Pause, MaxPause time.Duration // between tries
}

// Do carries out an effect. Right before it, a majority has to confirm that this peer still leads:
// a process that was suspended and resumes must not repeat an effect of the next leader. If Do was
// too late, nothing was done, and the term is confirmed again.
func (f Fence) Do(ctx context.Context, e Effect) error {
	announced, late, pause := false, 0, e.Pause
	for {
		// failpoint: effect-due
		notAfter, err := f.permit(ctx)
		if err == nil {
			if !announced {
				announced = true
				e.Confirmed()
			}
			// failpoint: term-confirmed
			err = e.Do(providers.WithConfirm(providers.WithNotAfter(ctx, notAfter), f.permit))
			if err == nil || providers.ClassOf(err) != providers.Late {
				return err
			}
			// The next try is faster, because it reuses the connections that are open now. If it is
			// late again and again, something else is wrong, such as a clock.
			late++
			e.Late(late, err)
			pause = min(2*pause, e.MaxPause)
		}
		if err := wait.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

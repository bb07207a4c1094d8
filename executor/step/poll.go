package step

import (
	"context"
	"errors"
	"math/rand/v2"
	"regexp"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// Poll calls cond until it returns true. Transient errors are retried until the deadline
// and shown in the run's wait; any other error fails the attempt.
func (a *Attempt) Poll(ctx context.Context, what *holdfastv1.Wait, cond func(context.Context) (bool, error)) error {
	a.awaits(what)
	p := poller{next: a.Config.PollMin, most: a.Config.PollMax}
	var last error
	for {
		ok, err := cond(ctx)
		if ok {
			return nil
		}
		if err != nil && (ctx.Err() != nil || !passing(err)) {
			return err
		}
		switch last = err; {
		case err != nil:
			a.awaitsBut(what, shortError(err))
		case fsm.SameWait(a.Wait.For, what): // unless cond has set a more precise one
			a.awaits(what)
		}
		if err := a.Note(ctx); err != nil {
			return err
		}
		if err := wait.Sleep(ctx, p.interval()); err != nil {
			if last != nil {
				return last
			}
			return err
		}
	}
}

// passing reports whether an error is transient, so that the next observation may succeed.
func passing(err error) bool {
	if _, ok := errors.AsType[*Failure](err); ok {
		return false
	}
	class := providers.ClassOf(err)
	return class == providers.Transient || class == providers.Timeout
}

// Failure is an error that ends an attempt at once: a bad outcome was observed. Other
// errors mean that the observation failed.
type Failure struct{ error }

// Unwrap returns the error.
func (f *Failure) Unwrap() error { return f.error }

// settle waits for the result of an effect that an earlier leader may have sent. It
// returns once cond returns true, or after the settle time: then nothing was sent.
func (a *Attempt) settle(ctx context.Context, cond func(context.Context) (bool, error)) error {
	if !a.Adopted {
		return nil
	}
	return a.Poll(ctx, effect("effect of the earlier leader", "visible"), func(ctx context.Context) (bool, error) {
		shown, err := cond(ctx)
		if shown || err != nil {
			return shown, err
		}
		// Read settleTime after the observation, which may have told the provider how
		// slow the hardware is.
		return time.Since(a.Began) > a.SettleTime(), nil
	})
}

// shortError returns the text of an error as the cause of a wait.
func shortError(err error) string {
	return task.Truncate(300, ephemeral.ReplaceAllString(err.Error(), "$1->"))
}

// ephemeral matches the local address of a connection in an error of package net. Its
// port differs each time.
var ephemeral = regexp.MustCompile(`(\d+\.\d+\.\d+\.\d+|\[[0-9a-fA-F:.%\w]+\]):\d+->`)

// Suffix returns a message as the end of a text.
func Suffix(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

// Cause returns the suffix of a text with the error, unless the error is only a deadline.
func Cause(err error) string {
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		return ""
	}
	return ": " + err.Error()
}

// poller returns the intervals between observations: short at first, then longer, with jitter.
type poller struct{ next, most time.Duration }

func (p *poller) interval() time.Duration {
	d := p.next
	p.next = min(p.next*3/2, p.most)
	return d*3/4 + rand.N(d/2+1)
}

package bmc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/holdfast-metal/holdfast/providers"
)

// tripAfter is how many operations in a row a BMC may leave without an answer before it is left
// alone for a while.
const tripAfter = 5

// Advice is what to do next about a BMC that does not answer: the rungs of the ladder that are not
// climbed by themselves. Reconnecting, and ending old sessions when there is no room for ours,
// happen inside an operation.
type Advice string

// The rungs.
const (
	Wait      Advice = "wait"      // it is left alone for now, and probed again
	Reset     Advice = "reset-bmc" // ResetBMC may help
	Intervene Advice = "intervene" // it was reset within the hour: somebody has to look
)

// Stuck is the error of a BMC that is left alone because it does not answer.
type Stuck struct {
	Next  Advice
	Until time.Time // when it is probed
}

func (s *Stuck) Error() string {
	what := "it is probed then"
	switch s.Next {
	case Reset:
		what = "resetting the BMC may help"
	case Intervene:
		what = "it was reset within the last hour, which did not help: have somebody look at it"
	}
	return fmt.Sprintf("not sent: the BMC did not answer several times in a row and is left alone until %s; %s", s.Until.UTC().Format(time.RFC3339), what)
}

// AdviceOf returns what to do next about an error; empty if it is none of those.
func AdviceOf(err error) Advice {
	var s *Stuck
	if errors.As(err, &s) {
		return s.Next
	}
	return ""
}

// newBreaker returns the circuit breaker of one BMC.
func (c *controller) newBreaker() *gobreaker.CircuitBreaker[struct{}] {
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name: c.key, MaxRequests: 1, Timeout: c.p.cfg.OpenTime,
		ReadyToTrip:  func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= tripAfter },
		IsSuccessful: func(err error) bool { return !silent(err) },
		IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) || errors.Is(err, errClosed) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			c.state.Lock()
			switch to {
			case gobreaker.StateOpen:
				c.opened++
				c.memo.OpenUntil = time.Now().Add(c.p.cfg.OpenTime)
			case gobreaker.StateClosed:
				c.opened = 0
				c.memo.OpenUntil = time.Time{}
			case gobreaker.StateHalfOpen:
			}
			c.state.Unlock()
			c.p.log.Info("circuit breaker of a BMC", "bmc", c.key, "state", to.String())
		},
	})
}

// guarded runs an operation unless the BMC is left alone.
func (c *controller) guarded(ctx context.Context, op string, f func() error) error {
	c.state.Lock()
	until, inherited := c.memo.OpenUntil, c.opened == 0
	c.state.Unlock()
	if inherited && time.Now().Before(until) { // an earlier leader found it silent
		return c.stuck(op)
	}
	_, err := c.breaker.Execute(func() (struct{}, error) { return struct{}{}, f() })
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return c.stuck(op)
	}
	c.remember(ctx)
	return err
}

func (c *controller) stuck(op string) error {
	c.state.Lock()
	defer c.state.Unlock()
	s := &Stuck{Next: Wait, Until: c.memo.OpenUntil}
	switch {
	case c.opened < 2:
	case time.Since(c.memo.ResetAt) < resetEvery:
		s.Next = Intervene
	default:
		s.Next = Reset
	}
	return providers.Errorf(providers.Transient, op, "%w", s)
}

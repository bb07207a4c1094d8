package bmc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
)

// tripAfter is the number of consecutive unanswered operations after which the circuit breaker of a
// BMC opens.
const tripAfter = 5

// Advice is the next step for a BMC that does not answer. It only has the steps of the escalation
// that need a decision. The first steps are automatic and part of an operation: to reconnect, and
// to end old sessions when the BMC has no room for ours.
type Advice string

// The values of Advice.
const (
	Wait      Advice = "wait"      // wait for the next probe
	Reset     Advice = "reset-bmc" // ResetBMC may help
	Intervene Advice = "intervene" // it was reset within the hour: an operator has to inspect it
)

// BreakerOpen is the error of an operation that was not sent, because the circuit breaker of the
// BMC is open.
type BreakerOpen struct {
	Next  Advice
	Until time.Time // time of the next probe
}

func (s *BreakerOpen) Error() string {
	advice := "it is probed then"
	switch s.Next {
	case Reset:
		advice = "resetting the BMC may help"
	case Intervene:
		advice = "it was reset within the last hour without success: inspect the machine on site"
	}
	return fmt.Sprintf("not sent: the BMC repeatedly did not answer and is left alone until %s; %s",
		s.Until.UTC().Format(time.RFC3339), advice)
}

// AdviceOf returns the advice of the BreakerOpen in err, or "" if there is none.
func AdviceOf(err error) Advice {
	if s, ok := errors.AsType[*BreakerOpen](err); ok {
		return s.Next
	}
	return ""
}

// newBreaker returns the circuit breaker of one BMC.
func (c *controller) newBreaker() *gobreaker.CircuitBreaker[struct{}] {
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name: c.key, MaxRequests: 1, Timeout: c.p.cfg.OpenTime,
		ReadyToTrip:  func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= tripAfter },
		IsSuccessful: func(err error) bool { return !access.Silent(err) },
		IsExcluded: func(err error) bool {
			return errors.Is(err, context.Canceled) || errors.Is(err, access.ErrClosed)
		},
		OnStateChange: func(_ string, _, to gobreaker.State) {
			c.state.Lock()
			switch to {
			case gobreaker.StateOpen:
				c.opened++
				c.memo.OpenUntil = c.p.now().Add(c.p.cfg.OpenTime)
			case gobreaker.StateClosed:
				c.opened = 0
				c.memo.OpenUntil = time.Time{}
			case gobreaker.StateHalfOpen:
			}
			c.state.Unlock()
			c.p.log.Info("circuit breaker of BMC changed state", "bmc", c.key, "state", to.String())
		},
	})
}

// guarded runs f unless the circuit breaker of the BMC is open.
func (c *controller) guarded(ctx context.Context, op string, f func() error) error {
	c.state.Lock()
	until, inherited := c.memo.OpenUntil, c.opened == 0
	c.state.Unlock()
	if inherited && c.p.now().Before(until) { // opened under an earlier leader
		return c.notSent(op)
	}
	_, err := c.breaker.Execute(func() (struct{}, error) { return struct{}{}, f() })
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return c.notSent(op)
	}
	c.save(ctx)
	return err
}

func (c *controller) notSent(op string) error {
	c.state.Lock()
	defer c.state.Unlock()
	s := &BreakerOpen{Next: Wait, Until: c.memo.OpenUntil}
	switch {
	case c.opened < 2:
	case c.p.now().Sub(c.memo.ResetAt) < resetEvery:
		s.Next = Intervene
	default:
		s.Next = Reset
	}
	return providers.Errorf(providers.Transient, op, "%w", s)
}

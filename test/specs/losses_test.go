package specs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// late is how long after its TTL a loss may be declared
// (docs/decisions/0012-leases-have-a-clock-of-their-own.md), and early how much the clocks of this
// test may be off: an answer is noted when it has come.
const (
	late  = time.Minute
	early = time.Second
)

// line is the network of a client, which can be cut for good.
type line struct {
	http.RoundTripper
	cut  atomic.Bool
	last atomic.Pointer[time.Time] // when something was answered last
}

func newLine(w *world) *line {
	return &line{RoundTripper: &http.Transport{TLSClientConfig: w.agentTLS()}}
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.cut.Load() {
		return nil, errors.New("the line is cut")
	}
	resp, err := l.RoundTripper.RoundTrip(r)
	if now := time.Now(); err == nil && resp.StatusCode == http.StatusOK {
		l.last.Store(&now)
	}
	return resp, err
}

// wantLoss waits until a loss is declared, and checks that this happens within the window after the
// last heartbeat. The TTL is one of those between least and most.
func wantLoss(
	t *testing.T, what string, last time.Time, least, most time.Duration, declared func(ctx context.Context) (bool, error),
) {
	t.Helper()
	var err error
	for time.Since(last) < most+late+10*time.Second {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		var lost bool
		lost, err = declared(ctx)
		cancel()
		if after := time.Since(last); lost {
			t.Logf("%s was declared lost %v after its last heartbeat", what, after.Round(time.Millisecond))
			if after < least-early || after > most+late {
				t.Errorf("%s was declared lost after %v, want %v to %v", what, after, least, most+late)
			}
			return
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-t.Context().Done():
			return
		}
	}
	t.Errorf("%s was not declared lost within %v: %v", what, most+late, err)
}

// losePool cuts the line of the pool manager, which cannot say farewell then. Three missed beats
// are its end, and it was asked for one every 10 s, or every 30 s when little goes on.
func (w *world) losePool(t *testing.T, l *line) {
	t.Helper()
	l.cut.Store(true)
	wantLoss(t, "the pool", *l.last.Load(), 30*time.Second, 90*time.Second, func(ctx context.Context) (bool, error) {
		p, err := holdfastv1.NewPoolServiceClient(w.conn).GetPool(ctx, &holdfastv1.GetPoolRequest{PoolId: "pool-1"})
		if p.GetStatus() == holdfastv1.Pool_UNAVAILABLE && p.GetStatusReason() != "missed its heartbeats" {
			t.Errorf("the pool is unavailable because it %q", p.GetStatusReason())
		}
		return p.GetStatus() == holdfastv1.Pool_UNAVAILABLE, err
	})
}

// loseAgent waits for an agent that was stopped to expire: it leaves a history and a condition.
// That takes more than five minutes, so only E2E_EXPIRY=1 asks for it; the lease engine's own tests
// do it in made-up time.
func (w *world) loseAgent(t *testing.T, id string, stop func(), last func() time.Time) {
	t.Helper()
	if os.Getenv("E2E_EXPIRY") == "" {
		return
	}
	stop()
	machines := holdfastv1.NewMachineServiceClient(w.conn)
	wantLoss(t, id, last(), 5*time.Minute, 5*time.Minute, func(ctx context.Context) (bool, error) {
		m, err := machines.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: id})
		return m.GetStatus().GetAgentState() == holdfastv1.Agent_EXPIRED, err
	})
	w.wantHistory(t, id, "REGISTERED", "READY", "EXPIRED")
	until(t, "read the condition", func(ctx context.Context) error {
		m, err := machines.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: id})
		if err != nil {
			return err
		}
		for _, c := range m.GetStatus().GetConditions() {
			if c.GetType() == "AgentReady" && !c.GetStatus() && c.GetReason() == "AgentExpired" {
				return nil
			}
		}
		return fmt.Errorf("no condition says that the agent has expired: %v", m.GetStatus().GetConditions())
	})
}

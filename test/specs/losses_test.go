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

// late bounds the time from the TTL until a loss is declared
// (docs/decisions/0012-leases-have-a-clock-of-their-own.md). early allows for the time between an
// answer and its record in this test.
const (
	late  = time.Minute
	early = time.Second
)

// line is the network of a client, which can be cut permanently.
type line struct {
	http.RoundTripper
	cut  atomic.Bool
	last atomic.Pointer[time.Time] // time of the last answer
}

func newLine(w *world) *line {
	return &line{RoundTripper: &http.Transport{TLSClientConfig: w.agentTLS()}}
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.cut.Load() {
		return nil, errors.New("network is cut")
	}
	resp, err := l.RoundTripper.RoundTrip(r)
	if now := time.Now(); err == nil && resp.StatusCode == http.StatusOK {
		l.last.Store(&now)
	}
	return resp, err
}

// wantLoss waits until a loss is declared, and checks that this happens in time after the last
// heartbeat, for a TTL between least and most.
func wantLoss(
	t *testing.T, name string, last time.Time, least, most time.Duration, declared func(ctx context.Context) (bool, error),
) {
	t.Helper()
	var err error
	for time.Since(last) < most+late+10*time.Second {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		var lost bool
		lost, err = declared(ctx)
		cancel()
		if after := time.Since(last); lost {
			t.Logf("%s was declared lost %v after its last heartbeat", name, after.Round(time.Millisecond))
			if after < least-early || after > most+late {
				t.Errorf("%s: got a loss after %v, want %v to %v", name, after, least, most+late)
			}
			return
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-t.Context().Done():
			return
		}
	}
	t.Errorf("%s: got no loss within %v: %v", name, most+late, err)
}

// losePool cuts the network of the pool manager, so that it cannot deregister. It is lost after
// three intervals, which are 10 s, or 30 s while there is little activity.
func (w *world) losePool(t *testing.T, l *line) {
	t.Helper()
	l.cut.Store(true)
	wantLoss(t, "the pool", *l.last.Load(), 30*time.Second, 90*time.Second, func(ctx context.Context) (bool, error) {
		p, err := holdfastv1.NewPoolServiceClient(w.conn).GetPool(ctx, &holdfastv1.GetPoolRequest{PoolId: "pool-1"})
		if p.GetStatus() == holdfastv1.Pool_UNAVAILABLE && p.GetStatusReason() != "missed its heartbeats" {
			t.Errorf("reason of the unavailable pool: got %q", p.GetStatusReason())
		}
		return p.GetStatus() == holdfastv1.Pool_UNAVAILABLE, err
	})
}

// loseAgent waits for a stopped agent to expire, with a history entry and a condition. This takes
// more than five minutes and is done only with E2E_EXPIRY=1. The tests of the lease engine use
// simulated time.
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
		return fmt.Errorf("no condition of an expired agent: %v", m.GetStatus().GetConditions())
	})
}

package runs

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// mute is a host that loses some answers about its network.
type mute struct {
	*fake.Provider

	mu        sync.Mutex
	drops     int       // number of apply requests that are lost
	lost      int       // number of apply requests whose answer is lost
	confirmed bool      // the answer to the confirmation is lost, and the host is silent for some time
	until     time.Time // end of the silence
}

func (p *mute) gone() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.until) {
		return noAnswer()
	}
	return nil
}

func noAnswer() error { return providers.Errorf(providers.Timeout, "ask the host", "no answer") }

func (p *mute) NetworkStatus(ctx context.Context, m providers.Machine) (providers.NetworkStatus, error) {
	if err := p.gone(); err != nil {
		return providers.NetworkStatus{}, err
	}
	return p.Provider.NetworkStatus(ctx, m)
}

func (p *mute) ApplyNetwork(
	ctx context.Context, op providers.Op, m providers.Machine, config string, rollback time.Duration,
) error {
	p.mu.Lock()
	drop, lose := p.drops > 0, p.lost > 0
	p.drops, p.lost = p.drops-1, p.lost-1
	p.mu.Unlock()
	if drop {
		return noAnswer()
	}
	if err := p.Provider.ApplyNetwork(ctx, op, m, config, rollback); err != nil || !lose {
		return err
	}
	return noAnswer()
}

func (p *mute) ConfirmNetwork(ctx context.Context, op providers.Op, m providers.Machine, token string) error {
	if err := p.gone(); err != nil {
		return err
	}
	err := p.Provider.ConfirmNetwork(ctx, op, m, token)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.confirmed {
		p.confirmed, p.until = false, time.Now().Add(70*time.Second)
		return noAnswer()
	}
	return err
}

// A network is applied once, even if answers are lost, and a confirmed one stays. After
// an unknown outcome, the attempt and its retry poll the host first.
func TestNetworkIsAppliedOnce(t *testing.T) {
	for _, tc := range []struct {
		name     string
		host     *mute
		attempts int
	}{
		{"all answers arrive", &mute{}, 1},
		{"applied, lost answer", &mute{lost: 1}, 1},
		{"lost request, twice", &mute{drops: 2}, 1},
		{"confirmed, lost answer until the end of the attempt", &mute{confirmed: true}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{})
				tc.host.Provider = fake.New(l.Fleet)
				l.Set = providers.SetOf(map[string]providers.Provider{"fake": tc.host})
				l.Machine("m-1")
				s := stepOf("s", &holdfastv1.NetReconfig{Config: "eth0: dhcp"})
				s.TimeoutSeconds, s.MaxRetries = 60, proto.Int32(1)
				l.Plan("p", s)
				l.lead(Config{})
				for range 2 { // the second run finds the confirmed network of the first one
					id := l.Start("m-1", "", "p", nil).GetRunId()
					run := l.Ended(id)
					if got := len(run.GetSteps()[0].GetAttempts()); run.GetPhase() != holdfastv1.Run_SUCCEEDED || got != tc.attempts {
						t.Errorf("run: got %s after %d attempts (%v), want SUCCEEDED after %d\n%s", run.GetPhase(), got,
							run.GetError(), tc.attempts, l.Log(id, "system"))
					}
					applied, confirmed := 0, 0
					for _, e := range l.Fleet.Effects("", id, 0) {
						switch e.Effect {
						case "net_apply":
							applied++
						case "net_confirm":
							confirmed++
						}
					}
					if applied != 1 || confirmed != 1 {
						t.Errorf("got %d applies and %d confirmations, want one each\n%s", applied, confirmed, l.Log(id, "system"))
					}
					tc.attempts = 1
					if st, err := tc.host.Provider.NetworkStatus(t.Context(), recordOf(l, "m-1")); err != nil || !st.Confirmed ||
						st.Reverted {
						t.Errorf("network: got %+v, %v, want confirmed", st, err)
					}
				}
			})
		})
	}
}

func recordOf(l *lab, id string) providers.Machine {
	m, _ := l.FSM.View().Machine(id)
	return m
}

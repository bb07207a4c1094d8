package runs

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// moving is a host that answers only at the address of its network. Like a real host, it rolls back
// unless it is confirmed.
type moving struct {
	*fake.Provider
	to string // the address at which it answers with the new network; "" for none

	mu       sync.Mutex
	confirms []string // the addresses of the confirmations
}

// at returns the host, if it answers at the machine's address.
func (p *moving) at(ctx context.Context, m providers.Machine) error {
	st, err := p.NetworkStatus1(ctx, m)
	if err != nil {
		return err
	}
	is := "old:22"
	if st.Token != "" && !st.Reverted {
		is = p.to
	}
	if m.GetSpec().GetSshEndpoint() != is {
		return providers.Errorf(providers.Timeout, "connect", "no answer at %s", m.GetSpec().GetSshEndpoint())
	}
	return nil
}

func (p *moving) NetworkStatus1(ctx context.Context, m providers.Machine) (providers.NetworkStatus, error) {
	return p.Provider.NetworkStatus(ctx, m)
}

func (p *moving) NetworkStatus(ctx context.Context, m providers.Machine) (providers.NetworkStatus, error) {
	if err := p.at(ctx, m); err != nil {
		return providers.NetworkStatus{}, err
	}
	return p.Provider.NetworkStatus(ctx, m)
}

func (p *moving) ApplyNetwork(
	ctx context.Context, op providers.Op, m providers.Machine, config string, rollback time.Duration,
) error {
	if err := p.at(ctx, m); err != nil {
		return err
	}
	return p.Provider.ApplyNetwork(ctx, op, m, config, rollback)
}

func (p *moving) ConfirmNetwork(ctx context.Context, op providers.Op, m providers.Machine, token string) error {
	if err := p.at(ctx, m); err != nil {
		return err
	}
	p.mu.Lock()
	p.confirms = append(p.confirms, m.GetSpec().GetSshEndpoint())
	p.mu.Unlock()
	return p.Provider.ConfirmNetwork(ctx, op, m, token)
}

// A host whose address changes is confirmed at the new one, which is then recorded. A host that
// does not come up there rolls back and keeps its old address. The outcome is the same if leaders
// die meanwhile.
func TestNetworkWithAnotherAddress(t *testing.T) {
	for _, tc := range []struct {
		name string
		to   string // address at which the host comes up
		says string // address in the plan
		die  Boundary
		want string // recorded address
		err  string
	}{
		{"new address", "new:22", "new:22", "", "new:22", ""},
		{"leader dies after the effect", "new:22", "new:22", AfterEffect, "new:22", ""},
		{"leader dies after the move", "new:22", "new:22", AfterEvidence, "new:22", ""},
		{"host not reachable", "", "new:22", "", "old:22", "went back to its former network"},
		{"host not reachable, leader dies", "", "new:22", AfterIntent, "old:22", "went back to its former network"},
		{"other address", "else:22", "new:22", "", "old:22", "went back to its former network"},
		{"unchanged address", "old:22", "", "", "old:22", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{})
				p := &moving{Provider: fake.New(l.Fleet), to: tc.to}
				l.Set = providers.SetOf(map[string]providers.Provider{"fake": p})
				l.Must(&internalv1.Command{Op: &internalv1.Command_RegisterMachine{RegisterMachine: &internalv1.RegisterMachine{
					Machine: &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{SshEndpoint: "old:22"}}}}})
				s := stepOf("s", &holdfastv1.NetReconfig{Config: "eth0: dhcp"})
				s.TimeoutSeconds, s.MaxRetries = 290, proto.Int32(0)
				l.Plan("p", s)
				cfg := Config{}
				var first *tenure
				ready := make(chan struct{})
				cfg.Boundary = func(at Boundary, _ string) {
					if <-ready; at == tc.die {
						first.Kill()
					}
				}
				first = l.lead(cfg)
				close(ready)
				params := map[string]string{}
				if tc.says != "" {
					params["new_ssh_endpoint"] = tc.says
				}
				id := l.Start("m-1", "", "p", params).GetRunId()
				if tc.die != "" {
					<-first.Done
					l.lead(Config{})
				}
				run := l.Ended(id)
				if msg := run.GetError().GetMessage(); (msg == "") != (tc.err == "") || !strings.Contains(msg, tc.err) {
					t.Errorf("run: got %s: %q, want %q\n%s", run.GetPhase(), msg, tc.err, l.Log(id, "system"))
				}
				m, _ := l.FSM.View().Machine("m-1")
				if got := m.GetSpec().GetSshEndpoint(); got != tc.want {
					t.Errorf("recorded address: got %s, want %s", got, tc.want)
				}
				for _, at := range p.confirms {
					if at != tc.to {
						t.Errorf("confirmations: got %s, want only %s", at, tc.to)
					}
				}
				applied := 0
				for _, e := range l.Fleet.Effects("", id, 0) {
					if e.Effect == "net_apply" {
						applied++
					}
				}
				if want := 1; applied != want && tc.err != "is not an address" {
					t.Errorf("got %d applies, want 1", applied)
				}
			})
		})
	}
}

package providertest

import (
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

func joinTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"UnknownTokenIsNone": func(h *harness) {
			p := need[providers.ClusterJoiner](h)
			s, _, err := p.JoinStatus(h.ctx, h.Machine, h.op("join").Token())
			if err != nil || s != providers.WorkNone {
				h.Fatalf("got %q, %v, want none", s, err)
			}
		},
		"StartTwiceIsOnce": func(h *harness) {
			p := need[providers.ClusterJoiner](h)
			if h.ClusterRef == "" {
				h.Skip("setup has no ClusterRef")
			}
			op, spec := h.op("join"), providers.JoinSpec{ClusterRef: h.ClusterRef, Role: "worker"}
			for range 2 {
				h.ok("start", p.StartJoin(h.ctx, op, h.Machine, spec))
			}
			h.eventually("end of the join", func() (bool, error) {
				s, why, err := p.JoinStatus(h.ctx, h.Machine, op.Token())
				if s == providers.WorkFailed {
					h.Fatalf("join failed: %s", why)
				}
				return s == providers.WorkDone, err
			})
			h.ok("start when it is done", p.StartJoin(h.ctx, op, h.Machine, spec))
			h.counted(op, "join", 1)
			h.eventually("node is Ready", func() (bool, error) {
				n, err := p.NodeStatus(h.ctx, h.Machine, h.ClusterRef)
				return n.Registered && n.Ready && n.Reason != "", err
			})
		},
	}
}

func networkTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"ConfirmedStays": func(h *harness) {
			p := h.network()
			op := h.op("net")
			for range 2 {
				h.ok("apply", p.ApplyNetwork(h.ctx, op, h.Machine, h.NetConfig, h.Rollback))
			}
			h.networkIs(p, providers.NetworkStatus{Token: op.Token()})
			h.ok("confirm", p.ConfirmNetwork(h.ctx, op, h.Machine, op.Token()))
			confirmed := providers.NetworkStatus{Token: op.Token(), Confirmed: true}
			h.networkIs(p, confirmed)
			over := time.Now().Add(2 * h.Rollback)
			for time.Now().Before(over) {
				h.pause()
			}
			h.networkIs(p, confirmed)
			h.ok("confirm again", p.ConfirmNetwork(h.ctx, op, h.Machine, op.Token()))
			h.counted(op, "net_apply", 1)
			h.counted(op, "net_confirm", 1)
		},
		"UnconfirmedIsRolledBack": func(h *harness) {
			p := h.network()
			op := h.op("net")
			h.ok("apply", p.ApplyNetwork(h.ctx, op, h.Machine, h.NetConfig, h.Rollback))
			h.networkIs(p, providers.NetworkStatus{Token: op.Token(), Reverted: true})
			h.classed("confirm too late", p.ConfirmNetwork(h.ctx, op, h.Machine, op.Token()))
			h.networkIs(p, providers.NetworkStatus{Token: op.Token(), Reverted: true})
			h.ok("apply with a token that was used", p.ApplyNetwork(h.ctx, op, h.Machine, h.NetConfig, h.Rollback))
			h.networkIs(p, providers.NetworkStatus{Token: op.Token(), Reverted: true})
			h.counted(op, "net_apply", 1)
		},
		"UnknownTokenIsRefused": func(h *harness) {
			p := h.network()
			op := h.op("net")
			h.classed("confirm what was never applied", p.ConfirmNetwork(h.ctx, op, h.Machine, op.Token()))
			h.counted(op, "net_confirm", 0)
		},
	}
}

func (h *harness) network() providers.NetConfigurator {
	h.Helper()
	p := need[providers.NetConfigurator](h)
	if h.NetConfig == "" {
		h.Skip("setup has no NetConfig")
	}
	return p
}

func (h *harness) networkIs(p providers.NetConfigurator, want providers.NetworkStatus) {
	h.Helper()
	h.eventually("network status", func() (bool, error) {
		got, err := p.NetworkStatus(h.ctx, h.Machine)
		return got == want, err
	})
}

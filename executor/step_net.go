package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// netRollback is how long a host waits for a new network to be confirmed before it goes back.
const netRollback = 2 * time.Minute

// net applies a network configuration and confirms it over the new path. A host that nobody confirms goes back by
// itself, so a mistake costs minutes and not a drive to the datacenter.
func (a *attempt) net(p providers.NetConfigurator, s *holdfastv1.NetReconfig) action {
	return action{do: func(ctx context.Context) error {
		config := a.param(s.GetConfig(), "net_config")
		if config == "" {
			return providers.Errorf(providers.Unsupported, "apply network configuration", "there is none: set it in the step or as the run's parameter net_config")
		}
		rollback := netRollback
		if s.Confirm != nil && !s.GetConfirm() {
			rollback = 0
		}
		token := a.op.Token()
		var st providers.NetworkStatus
		look := func(ctx context.Context) (bool, error) {
			var err error
			st, err = p.NetworkStatus(ctx, a.machine)
			return err == nil, err
		}
		if err := a.poll(ctx, "the host to answer", look); err != nil {
			return err
		}
		if st.Token != token {
			err := a.effect(ctx, "apply the network configuration", func(ctx context.Context) error {
				return p.ApplyNetwork(ctx, a.op, a.machine, config, rollback)
			})
			if err != nil {
				return err
			}
		}
		if rollback > 0 && !st.Confirmed {
			if err := a.confirmNet(ctx, p, token); err != nil {
				return err
			}
		}
		return a.poll(ctx, "the network to answer on the new path", func(ctx context.Context) (bool, error) {
			if ok, err := look(ctx); !ok {
				return false, err
			}
			switch {
			case st.Reverted:
				return false, &failure{errors.New("the host went back to its former network")}
			case st.Token != token:
				return false, &failure{fmt.Errorf("the host has the network of %q, not of %s", st.Token, token)}
			case rollback > 0 && !st.Confirmed:
				return false, nil
			}
			a.prove(map[string]string{"network": token})
			a.message = "network configuration applied"
			return true, nil
		})
	}}
}

// confirmNet confirms over the new path until that answers. It is no new effect: it keeps the one that was done.
func (a *attempt) confirmNet(ctx context.Context, p providers.NetConfigurator, token string) error {
	return a.poll(ctx, "the new network to be confirmed", func(ctx context.Context) (bool, error) {
		err := a.effect(ctx, "confirm the network configuration", func(ctx context.Context) error {
			return p.ConfirmNetwork(ctx, a.op, a.machine, token)
		})
		return err == nil, err
	})
}

package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	// netRollback is how long a host waits for a new network to be confirmed before it goes back.
	netRollback = 2 * time.Minute
	// netLook bounds a look at one of two addresses, of which one may not answer.
	netLook = 10 * time.Second
)

// netChange is a network configuration on its way to a host.
type netChange struct {
	*attempt
	host   providers.NetConfigurator
	there  providers.Machine // the machine as it is reached with the new configuration
	moves  bool              // that is at another address
	token  string            // of the attempt that has applied it: this one, or an earlier one of the same step
	status providers.NetworkStatus
}

// net applies a network configuration and confirms it over the new path: at the machine's address,
// or at the one where the host answers from then on. Whoever answers there has to know the
// machine's host key. A host that nobody confirms goes back by itself, so a mistake costs minutes
// and not a drive to the datacenter.
func (a *attempt) net(p providers.NetConfigurator, s *holdfastv1.NetReconfig) action {
	return action{do: func(ctx context.Context) error {
		config := a.param(s.GetConfig(), "net_config")
		if config == "" {
			return providers.Errorf(providers.Unsupported, "apply network configuration", "there is none: set it in the step or as the run's parameter net_config")
		}
		c := &netChange{attempt: a, host: p, there: a.machine, token: a.op.Token()}
		if to := a.param(s.GetNewSshEndpoint(), "new_ssh_endpoint"); to != "" && to != a.machine.GetSpec().GetSshEndpoint() {
			if strings.ContainsAny(to, "/@ \t\r\n") || len(to) > 255 {
				return providers.Errorf(providers.Unsupported, "apply network configuration", "new_ssh_endpoint %q is no address: want host or host:port", to)
			}
			there, _ := proto.Clone(a.machine).(*holdfastv1.Machine)
			if there.Spec == nil {
				there.Spec = &holdfastv1.MachineSpec{}
			}
			there.Spec.SshEndpoint = to
			c.there, c.moves = there, true
		}
		rollback := netRollback
		if s.Confirm != nil && !s.GetConfirm() {
			rollback = 0
		}
		return c.bring(ctx, config, rollback)
	}}
}

func (c *netChange) bring(ctx context.Context, config string, rollback time.Duration) error {
	if err := c.poll(ctx, "the host to answer", func(ctx context.Context) (bool, error) { return c.look(ctx, c.adopted != nil || c.number > 1) }); err != nil {
		return err
	}
	if c.earlier() {
		c.token = c.status.Token
		c.say("the host has the network of %s, an earlier attempt: it is not applied again", c.token)
	}
	if c.status.Token != c.token {
		c.status = providers.NetworkStatus{} // what is known is of another configuration
		if err := c.apply(ctx, config, rollback); err != nil {
			return err
		}
	}
	token := c.token
	if rollback > 0 && !c.status.Confirmed && !c.status.Reverted {
		if err := c.confirm(ctx, token); err != nil {
			return err
		}
	}
	return c.poll(ctx, "the network to answer on the new path", func(ctx context.Context) (bool, error) {
		if ok, err := c.look(ctx, true); !ok {
			return false, err
		}
		switch {
		case c.status.Reverted:
			return false, errWentBack
		case c.status.Token != token:
			return false, &failure{fmt.Errorf("the host has the network of %q, not of %s", c.status.Token, token)}
		case rollback > 0 && !c.status.Confirmed:
			return false, nil
		}
		c.prove(map[string]string{"network": token})
		c.message = "network configuration applied"
		if c.moves {
			c.prove(map[string]string{fsm.ProofEndpoint: c.there.GetSpec().GetSshEndpoint()})
			c.message += ", the host answers at " + c.there.GetSpec().GetSshEndpoint()
		}
		return true, nil
	})
}

// earlier reports whether the host has the network of an earlier attempt of this step, and has not
// gone back from it. Its configuration is the same: what was not known was the outcome.
func (c *netChange) earlier() bool {
	return !c.status.Reverted && c.status.Token != c.token && c.ours(c.status.Token)
}

// apply has the host apply the configuration. An answer that does not come is no failure, for the
// change itself may have cut it off: the host is looked at, and when it has nothing of this attempt
// it is asked again, under the same token. So it does it once.
func (c *netChange) apply(ctx context.Context, config string, rollback time.Duration) error {
	for {
		lost := c.effect(ctx, "apply the network configuration", func(ctx context.Context) error {
			return c.host.ApplyNetwork(ctx, c.op, c.machine, config, rollback)
		})
		if lost == nil || !c.unanswered(ctx, lost) {
			return lost
		}
		var answers time.Time // since when the host can be looked at
		err := c.poll(ctx, "the host to tell whether it has the new network", func(ctx context.Context) (bool, error) {
			if ok, err := c.look(ctx, true); !ok {
				return false, err
			}
			if answers.IsZero() {
				answers = time.Now()
			}
			return c.status.Token == c.token || time.Since(answers) > c.settleTime(), nil
		})
		if err != nil || c.status.Token == c.token {
			return err
		}
	}
}

var errWentBack = &failure{errors.New("the host went back to its former network")}

// ours reports whether a token is of this step of this run.
func (c *netChange) ours(token string) bool {
	for n := int32(1); n <= c.number; n++ {
		op := c.op
		if op.Attempt = n; token == op.Token() {
			return true
		}
	}
	return false
}

// look asks the host which network it has. Once the new one may be in force it is asked where that
// makes it answer, and where it answers when it has gone back; who does not have this attempt's
// network there may be another host, or the former one.
func (c *netChange) look(ctx context.Context, applied bool) (bool, error) {
	if c.moves && applied {
		short, stop := context.WithTimeout(ctx, netLook)
		st, err := c.host.NetworkStatus(short, c.there)
		stop()
		if err == nil && c.ours(st.Token) {
			c.status = st
			return true, nil
		}
	}
	st, err := c.host.NetworkStatus(ctx, c.machine)
	if err == nil {
		c.status = st
	}
	return err == nil, err
}

// confirm confirms over the new path until that answers. It is no new effect: it keeps the one that
// was done.
func (c *netChange) confirm(ctx context.Context, token string) error {
	what := "the new network to be confirmed"
	if c.moves {
		what += " at " + c.there.GetSpec().GetSshEndpoint()
	}
	return c.poll(ctx, what, func(ctx context.Context) (bool, error) {
		err := c.effect(ctx, "confirm the network configuration", func(ctx context.Context) error {
			return c.host.ConfirmNetwork(ctx, c.op, c.there, token)
		})
		if err != nil && c.moves && ctx.Err() == nil {
			// Nobody there may mean that the host has gone back to where it was.
			short, stop := context.WithTimeout(ctx, netLook)
			defer stop()
			if st, lookErr := c.host.NetworkStatus(short, c.machine); lookErr == nil && st.Token == token && st.Reverted {
				return false, errWentBack
			}
		}
		return err == nil, err
	})
}

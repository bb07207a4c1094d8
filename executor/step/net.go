package step

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
	// netRollback is how long a host waits for the confirmation of a new network before
	// it rolls back.
	netRollback = 2 * time.Minute
	// netPoll bounds a poll at one of two addresses, of which one may not answer.
	netPoll = 10 * time.Second
)

// netChange is a change of a host's network configuration.
type netChange struct {
	*Attempt
	host   providers.NetConfigurator
	there  providers.Machine // the machine with its address under the new configuration
	moves  bool              // the address changes
	token  string            // of the attempt that applied it: this one, or an earlier one of the same step
	status providers.NetworkStatus
}

// net applies a network configuration and confirms it over the new path: at the machine's
// address, or at its new address if the step changes it. The host at that address must
// have the machine's host key. Without a confirmation the host rolls back by itself, so a
// mistake costs minutes and not a drive to the datacenter.
func (a *Attempt) net(p providers.NetConfigurator, s *holdfastv1.NetReconfig) Action {
	return Action{Do: func(ctx context.Context) error {
		config := a.param(s.GetConfig(), "net_config")
		if config == "" {
			return providers.Errorf(providers.Unsupported, "apply network configuration",
				"there is none: set it in the step or as the run's parameter net_config")
		}
		c := &netChange{Attempt: a, host: p, there: a.Machine, token: a.Op.Token()}
		if to := a.param(s.GetNewSshEndpoint(), "new_ssh_endpoint"); to != "" && to != a.Machine.GetSpec().GetSshEndpoint() {
			if strings.ContainsAny(to, "/@ \t\r\n") || len(to) > 255 {
				return providers.Errorf(providers.Unsupported, "apply network configuration",
					"new_ssh_endpoint %q is not an address: want host or host:port", to)
			}
			there, _ := proto.Clone(a.Machine).(*holdfastv1.Machine)
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
	applied := c.Adopted || c.Op.Attempt > 1 // perhaps
	err := c.Poll(ctx, answer(host, ""), func(ctx context.Context) (bool, error) { return c.readStatus(ctx, applied) })
	if err != nil {
		return err
	}
	if c.earlier() {
		c.token = c.status.Token
		c.Say("the host already has the network of %s, an earlier attempt: not applying it again", c.token)
	}
	if c.status.Token != c.token {
		c.status = providers.NetworkStatus{} // it is the status of another configuration
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
	return c.Poll(ctx, answer("network on the new path", ""), func(ctx context.Context) (bool, error) {
		if ok, err := c.readStatus(ctx, true); !ok {
			return false, err
		}
		switch {
		case c.status.Reverted:
			return false, errWentBack
		case c.status.Token != token:
			return false, &Failure{fmt.Errorf("the host has the network of %q, not of %s", c.status.Token, token)}
		case rollback > 0 && !c.status.Confirmed:
			return false, nil
		}
		c.AddEvidence(map[string]string{"network": token})
		c.Message = "network configuration applied"
		if c.moves {
			c.AddEvidence(map[string]string{fsm.EvidenceEndpoint: c.there.GetSpec().GetSshEndpoint()})
			c.Message += ", the host answers at " + c.there.GetSpec().GetSshEndpoint()
		}
		return true, nil
	})
}

// earlier reports whether the host has the network of an earlier attempt of this step,
// and has not rolled it back. That attempt had the same configuration, but its outcome
// was unknown.
func (c *netChange) earlier() bool {
	return !c.status.Reverted && c.status.Token != c.token && c.ours(c.status.Token)
}

// apply makes the host apply the configuration. A missing answer is not a failure,
// because the change itself may have broken the connection. Then the host is polled, and
// if it does not have the configuration of this attempt, the request is repeated under
// the same token. So the host applies it once.
func (c *netChange) apply(ctx context.Context, config string, rollback time.Duration) error {
	for {
		lost := c.Effect(ctx, "apply the network configuration", func(ctx context.Context) error {
			return c.host.ApplyNetwork(ctx, c.Op, c.Machine, config, rollback)
		})
		if lost == nil || !c.isUnknown(ctx, lost) {
			return lost
		}
		var answers time.Time // when the host first answered a poll
		err := c.Poll(ctx, answer(host, "new network"),
			func(ctx context.Context) (bool, error) {
				if ok, err := c.readStatus(ctx, true); !ok {
					return false, err
				}
				if answers.IsZero() {
					answers = time.Now()
				}
				return c.status.Token == c.token || time.Since(answers) > c.SettleTime(), nil
			})
		if err != nil || c.status.Token == c.token {
			return err
		}
	}
}

var errWentBack = &Failure{errors.New("the host went back to its former network")}

// ours reports whether a token belongs to an attempt of this step of this run.
func (c *netChange) ours(token string) bool {
	for n := int32(1); n <= c.Op.Attempt; n++ {
		op := c.Op
		if op.Attempt = n; token == op.Token() {
			return true
		}
	}
	return false
}

// readStatus reads which network the host has. If the new one may be applied, it asks at the
// new address first, and then at the old one, in case the host has rolled back. An answer
// at the new address counts only if it has a token of this step: otherwise it may be from
// another host.
func (c *netChange) readStatus(ctx context.Context, applied bool) (bool, error) {
	if c.moves && applied {
		short, stop := context.WithTimeout(ctx, netPoll)
		st, err := c.host.NetworkStatus(short, c.there)
		stop()
		if err == nil && c.ours(st.Token) {
			c.status = st
			return true, nil
		}
	}
	st, err := c.host.NetworkStatus(ctx, c.Machine)
	if err == nil {
		c.status = st
	}
	return err == nil, err
}

// confirm confirms the configuration over the new path, with retries until the host answers there.
func (c *netChange) confirm(ctx context.Context, token string) error {
	at := ""
	if c.moves {
		at = "at " + c.there.GetSpec().GetSshEndpoint()
	}
	return c.Poll(ctx, inDetail("new network", "confirmed", at), func(ctx context.Context) (bool, error) {
		err := c.Effect(ctx, "confirm the network configuration", func(ctx context.Context) error {
			return c.host.ConfirmNetwork(ctx, c.Op, c.there, token)
		})
		if err != nil && c.moves && ctx.Err() == nil {
			// No answer may mean that the host has rolled back to its old address.
			short, stop := context.WithTimeout(ctx, netPoll)
			defer stop()
			if st, readErr := c.host.NetworkStatus(short, c.Machine); readErr == nil && st.Token == token && st.Reverted {
				return false, errWentBack
			}
		}
		return err == nil, err
	})
}

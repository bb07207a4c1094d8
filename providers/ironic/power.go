package ironic

import (
	"context"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/holdfast-metal/holdfast/providers"
)

// PowerState returns the power state that Ironic knows. During a change it is unknown. If a
// requested change has failed, the first call returns the error; later calls do not.
func (p *Provider) PowerState(
	ctx context.Context, m providers.Machine,
) (state providers.PowerState, err error) {
	err = p.call(ctx, m, "read the power", false, func(ctx context.Context, s *session, id string) error {
		n, err := p.read(ctx, s, id)
		if err != nil {
			return err
		}
		if state = n.power(); state == providers.PowerUnknown && n.TargetPowerState == "" {
			if err := n.sick("read the power of " + m.GetMachineId()); err != nil {
				return err
			}
		}
		return p.failed(m, id, n)
	})
	return state, err
}

// power returns the power state of a node.
func (n *node) power() providers.PowerState {
	if n.TargetPowerState != "" {
		return providers.PowerUnknown
	}
	switch n.PowerState {
	case "power on":
		return providers.PowerOn
	case "power off":
		return providers.PowerOff
	}
	return providers.PowerUnknown
}

// failed returns the error of a press that Ironic accepted and could not perform. Ironic clears
// last_error when it begins a press.
func (p *Provider) failed(m providers.Machine, id string, n *node) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.pressed[id]
	if !ok || n.Reservation != "" || n.TargetPowerState != "" {
		return nil
	}
	delete(p.pressed, id)
	if n.LastError == "" || time.Since(at) > pressTime {
		return nil
	}
	return blame("press a button of "+m.GetMachineId(), n.LastError)
}

// pressTime is how long after a press Ironic's last error is attributed to it.
const pressTime = 15 * time.Minute

// SetPower requests a change of the power. It returns when a conductor has begun.
func (p *Provider) SetPower(ctx context.Context, _ providers.Op, m providers.Machine, a providers.PowerAction) error {
	var o nodes.PowerStateOpts
	switch a {
	case providers.ActionOn:
		o.Target = nodes.PowerOn
	case providers.ActionHardOff:
		o.Target = nodes.PowerOff
	case providers.ActionSoftOff:
		// Ironic keeps its lock until the timeout, and no other press would be possible.
		o.Target, o.Timeout = nodes.SoftPowerOff, max(1, int(time.Duration(p.cfg.SoftOffTime).Seconds()))
	default:
		return providers.Errorf(providers.Unsupported, "press a button of "+m.GetMachineId(),
			"unknown power action %q", a)
	}
	return p.call(ctx, m, "press "+string(a), true, func(ctx context.Context, s *session, id string) error {
		err := nodes.ChangePowerState(ctx, s.ServiceClient, id, o).ExtractErr()
		if err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.pressed[id] = time.Now(); a == providers.ActionSoftOff {
				delete(p.pressed, id) // a soft-off without effect is no failure: hard-off comes next
			}
		}
		return err
	})
}

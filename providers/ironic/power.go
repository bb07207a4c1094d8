package ironic

import (
	"context"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/holdfast-metal/holdfast/providers"
)

// PowerState returns what Ironic knows. On the way from one to the other it is unknown. When a
// change that was asked for has failed, the error says why, once: whoever asks for it again begins
// anew.
func (p *Provider) PowerState(ctx context.Context, m providers.Machine) (state providers.PowerState, err error) {
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

// power reads the power state of a node.
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

// failed returns what Ironic says of a press that it accepted and could not do. It clears
// last_error when it begins one.
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

// pressTime is how long what Ironic says is taken for being about the press.
const pressTime = 15 * time.Minute

// SetPower asks Ironic to change the power. It answers when a conductor has begun.
func (p *Provider) SetPower(ctx context.Context, _ providers.Op, m providers.Machine, a providers.PowerAction) error {
	var o nodes.PowerStateOpts
	switch a {
	case providers.ActionOn:
		o.Target = nodes.PowerOn
	case providers.ActionHardOff:
		o.Target = nodes.PowerOff
	case providers.ActionSoftOff:
		// Ironic holds its lock until then: nobody could press the other button.
		o.Target, o.Timeout = nodes.SoftPowerOff, max(1, int(time.Duration(p.cfg.SoftOffTime).Seconds()))
	default:
		return providers.Errorf(providers.Unsupported, "press a button of "+m.GetMachineId(), "there is no power action %q", a)
	}
	return p.call(ctx, m, "press "+string(a), true, func(ctx context.Context, s *session, id string) error {
		err := nodes.ChangePowerState(ctx, s.ServiceClient, id, o).ExtractErr()
		if err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.pressed[id] = time.Now(); a == providers.ActionSoftOff {
				delete(p.pressed, id) // an operating system that does not listen is no failure: the hard way comes next
			}
		}
		return err
	})
}

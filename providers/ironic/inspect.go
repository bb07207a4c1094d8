package ironic

import (
	"context"
	"errors"

	"github.com/holdfast-metal/holdfast/providers"
)

// Inspect returns Ironic's view of a machine. A node that Ironic cannot reach is a fact, not an
// error.
func (p *Provider) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	f := providers.Facts{ReachableReason: providers.NotProbed}
	err := p.call(ctx, m, "inspect the node", false, func(ctx context.Context, s *session, id string) error {
		n, err := p.read(ctx, s, id)
		if err != nil {
			return err
		}
		f.BMCReachable, f.BMCReason = true, "IronicOK"
		switch {
		case n.Fault == "power failure":
			f.BMCReachable, f.BMCReason = false, "PowerFailure"
		case n.Maintenance:
			f.BMCReason = "Maintenance"
		}
		f.Power = n.power()
		switch f.Power {
		case providers.PowerOn:
			f.Reachable, f.ReachableReason, f.BootID = true, "PoweredOn", n.powerChangedAt()
		case providers.PowerOff:
			f.ReachableReason = "PoweredOff"
		}
		if r := n.record(); r != nil && n.ProvisionState == "active" && r.last() {
			f.Image = r.Image
		}
		return nil
	})
	if err == nil {
		return f, nil
	}
	if errors.Is(err, context.Canceled) {
		return providers.Facts{}, err
	}
	f.BMCReachable, f.BMCReason = false, providers.ClassOf(err).Reason("Unreachable")
	f.BMCMessage = clip(err.Error())
	return f, nil
}

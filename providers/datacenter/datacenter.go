// Package datacenter is the provider of machines in our own racks: a BMC for power, boot device and
// media, and SSH for the host (docs/operating.md). It owns no connections and no rules: it passes
// each call to the part that has the capability, and merges the observations of both parts.
package datacenter

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/providers"
)

// BMC has the capabilities that work while the host is off.
type BMC interface {
	Controls
	Care
	providers.Console
	providers.Settler
}

// Controls are the capabilities of a BMC that boot a machine.
type Controls interface {
	providers.Inspector
	providers.PowerController
	providers.BootController
	providers.MediaController
}

// Care has the other capabilities of a BMC.
type Care interface {
	providers.Identifier
	providers.BMCResetter
	Reports
}

// Reports has the readings of the hardware by a BMC.
type Reports interface {
	providers.EventLog
	providers.InventoryReader
	providers.HealthReader
}

// Host has the capabilities that need a running host.
type Host interface {
	providers.Inspector
	providers.RemoteExecutor
	providers.NetConfigurator
	HostOnly
}

// HostOnly has the operations that a host performs on itself.
type HostOnly interface {
	providers.Eraser
	Reboot(ctx context.Context, op providers.Op, m providers.Machine) error
}

// Joiner joins the host to clusters and drains its node.
type Joiner interface {
	providers.ClusterJoiner
	providers.JoinEnder
	providers.Drainer
	JoinsRegistered() bool
}

// Installer installs machines that boot from the network (netboot.Imager).
type Installer interface {
	providers.Imager
	BootsInstaller() bool
}

// Provider drives machines through a BMC and SSH. Its Settle is the BMC's: a host refuses late
// effects itself.
type Provider struct {
	BMC
	Host
	Joiner
	Installer
}

// New returns a provider of these parts.
func New(b BMC, h Host, j Joiner, i Installer) *Provider { return &Provider{b, h, j, i} }

// Kind returns "datacenter".
func (p *Provider) Kind() string { return "datacenter" }

// HasBMC reports whether a machine has a BMC.
func (p *Provider) HasBMC(m providers.Machine) bool { return m.GetSpec().GetBmcEndpoint() != "" }

// Inspect polls the BMC and the host concurrently. It skips a part for which the machine has no
// endpoint. If one part fails, the facts of the other are still returned; it is an error if both
// fail.
func (p *Provider) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	var g errgroup.Group
	bmc := providers.Facts{BMCReason: "NoBMC", BMCUnknown: true, ReachableUnknown: true}
	host := providers.Facts{ReachableReason: providers.NoSSHEndpoint, ReachableUnknown: true}
	var bmcErr, hostErr error
	hasBMC, hasHost := p.HasBMC(m), m.GetSpec().GetSshEndpoint() != ""
	if hasBMC {
		g.Go(func() error { bmc, bmcErr = p.BMC.Inspect(ctx, m); return nil })
	}
	if hasHost {
		g.Go(func() error { host, hostErr = p.Host.Inspect(ctx, m); return nil })
	}
	_ = g.Wait()
	f := host
	f.BMCReachable, f.BMCReason, f.BMCMessage = bmc.BMCReachable, bmc.BMCReason, bmc.BMCMessage
	f.BMCUnknown, f.BMCSilent, f.Power = bmc.BMCUnknown, bmc.BMCSilent, bmc.Power
	if f.ReachableUnknown && !bmc.ReachableUnknown && bmcErr == nil && hasBMC { // only the BMC knows
		f.Reachable, f.ReachableReason, f.ReachableUnknown = bmc.Reachable, bmc.ReachableReason, false
	}
	if bmcErr != nil {
		f.BMCReachable, f.BMCReason, f.BMCUnknown = false, reason(bmcErr), providers.WhyNotAsked(bmcErr) != ""
		f.BMCMessage, f.Power = bmcErr.Error(), providers.PowerUnknown
	}
	if hostErr != nil {
		f.Reachable, f.ReachableReason = false, reason(hostErr)
		f.ReachableUnknown = providers.WhyNotAsked(hostErr) != ""
	}
	if (bmcErr != nil || !hasBMC) && (hostErr != nil || !hasHost) {
		if err := errors.Join(bmcErr, hostErr); err != nil {
			return providers.Facts{}, err
		}
	}
	return f, nil
}

// Health returns the health of the hardware, as the BMC reports it.
func (p *Provider) Health(ctx context.Context, m providers.Machine) (providers.Health, error) {
	if !p.HasBMC(m) {
		return providers.Health{}, providers.Errorf(providers.Unsupported, "read the health of "+m.GetMachineId(), "%w",
			&providers.NotAsked{Reason: "NoBMC", Err: errors.New("the machine has no BMC endpoint")})
	}
	return p.BMC.Health(ctx, m)
}

// reason returns the reason for a failed poll, as conditions show it.
func reason(err error) string {
	if why := providers.WhyNotAsked(err); why != "" {
		return why
	}
	return providers.ClassOf(err).Reason("Failed")
}

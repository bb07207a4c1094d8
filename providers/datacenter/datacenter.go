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
	providers.Inspector
	providers.PowerController
	providers.BootController
	providers.MediaController
}

// Care has the other capabilities of a BMC.
type Care interface {
	providers.Identifier
	providers.EventLog
	providers.BMCResetter
	providers.InventoryReader
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

// Provider drives machines through a BMC and SSH.
type Provider struct {
	providers.PowerController
	providers.BootController
	providers.MediaController
	providers.RemoteExecutor
	providers.NetConfigurator
	HostOnly
	Joiner
	Installer
	Care
	providers.Console
	providers.Settler

	bmc, host providers.Inspector
}

// New returns a provider of two parts. Settle is the BMC's: a host refuses late effects itself.
func New(
	bmc BMC,
	care Care,
	console providers.Console,
	settle providers.Settler,
	host Host,
	joiner Joiner,
	installer Installer,
) *Provider {
	return &Provider{
		PowerController: bmc,
		BootController:  bmc,
		MediaController: bmc,
		RemoteExecutor:  host,
		NetConfigurator: host,
		HostOnly:        host,
		Joiner:          joiner,
		Installer:       installer,
		Care:            care,
		Console:         console,
		Settler:         settle,
		bmc:             bmc,
		host:            host,
	}
}

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
	if m.GetSpec().GetBmcEndpoint() != "" {
		g.Go(func() error { bmc, bmcErr = p.bmc.Inspect(ctx, m); return nil })
	}
	if m.GetSpec().GetSshEndpoint() != "" {
		g.Go(func() error { host, hostErr = p.host.Inspect(ctx, m); return nil })
	}
	_ = g.Wait()
	f := host
	f.BMCReachable, f.BMCReason = bmc.BMCReachable, bmc.BMCReason
	f.BMCUnknown, f.BMCStuck, f.Power = bmc.BMCUnknown, bmc.BMCStuck, bmc.Power
	hasBMC := m.GetSpec().GetBmcEndpoint() != ""
	if f.ReachableUnknown && !bmc.ReachableUnknown && bmcErr == nil && hasBMC { // only the BMC knows
		f.Reachable, f.ReachableReason, f.ReachableUnknown = bmc.Reachable, bmc.ReachableReason, false
	}
	if bmcErr != nil {
		f.BMCReachable, f.BMCReason, f.BMCUnknown = false, reason(bmcErr), notAsked(bmcErr)
		f.Power = providers.PowerUnknown
	}
	if hostErr != nil {
		f.Reachable, f.ReachableReason, f.ReachableUnknown = false, reason(hostErr), notAsked(hostErr)
	}
	if bmcErr != nil && (hostErr != nil || m.GetSpec().GetSshEndpoint() == "") {
		return providers.Facts{}, errors.Join(bmcErr, hostErr)
	}
	if hostErr != nil && m.GetSpec().GetBmcEndpoint() == "" {
		return providers.Facts{}, hostErr
	}
	return f, nil
}

// Health returns the health of the hardware, as the BMC reports it.
func (p *Provider) Health(ctx context.Context, m providers.Machine) (providers.Health, error) {
	op := "read the health of " + m.GetMachineId()
	r, ok := p.bmc.(providers.HealthReader)
	if m.GetSpec().GetBmcEndpoint() == "" {
		return providers.Health{}, providers.Errorf(providers.Unsupported, op, "%w",
			&providers.NotAsked{Reason: "NoBMC", Err: errors.New("the machine has no BMC endpoint")})
	}
	if !ok {
		return providers.Health{}, providers.Errorf(providers.Unsupported, op, "the BMC does not report it")
	}
	return r.Health(ctx, m)
}

func notAsked(err error) bool { return providers.WhyNotAsked(err) != "" }

// reason returns the reason for a failed poll, as conditions show it.
func reason(err error) string {
	if why := providers.WhyNotAsked(err); why != "" {
		return why
	}
	return providers.ClassOf(err).Reason("Failed")
}

// Package datacenter is the provider of machines that stand in racks of ours: a BMC for power, boot
// device and media, and SSH for the host (docs/operating.md). It owns no connection and no rule of
// its own: it hands each capability to the half that has it, and puts what both have seen of a
// machine together.
package datacenter

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/providers"
)

// BMC is what works while the host is off.
type BMC interface {
	providers.Inspector
	providers.PowerController
	providers.BootController
	providers.MediaController
}

// Care is what else a BMC does.
type Care interface {
	providers.Identifier
	providers.EventLog
	providers.BMCResetter
	providers.InventoryReader
}

// Host is what works while it is up.
type Host interface {
	providers.Inspector
	providers.RemoteExecutor
	providers.NetConfigurator
	HostOnly
}

// HostOnly is what a host does to itself.
type HostOnly interface {
	providers.Eraser
	Reboot(ctx context.Context, op providers.Op, m providers.Machine) error
}

// Joiner brings the host into clusters, and sets its node aside.
type Joiner interface {
	providers.ClusterJoiner
	providers.JoinEnder
	providers.Drainer
}

// Installer installs machines that boot from the network (netboot.Imager).
type Installer interface {
	providers.Imager
	BootsInstaller() bool
}

// Provider drives machines through both.
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

// New returns a provider of two halves. The BMC's says how late its effects show: a host refuses
// what comes late by itself.
func New(bmc BMC, care Care, console providers.Console, settle providers.Settler, host Host, joiner Joiner, installer Installer) *Provider {
	return &Provider{PowerController: bmc, BootController: bmc, MediaController: bmc, RemoteExecutor: host, NetConfigurator: host, HostOnly: host, Joiner: joiner, Installer: installer, Care: care, Console: console, Settler: settle, bmc: bmc, host: host}
}

// Kind is "datacenter".
func (p *Provider) Kind() string { return "datacenter" }

// HasBMC reports whether a machine has a BMC.
func (p *Provider) HasBMC(m providers.Machine) bool { return m.GetSpec().GetBmcEndpoint() != "" }

// Inspect looks at the BMC and at the host at the same time. A half that a machine has no endpoint
// of is not asked. What one half has seen is told also when the other one has failed to look; it is
// an error when neither could.
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
	f.BMCReachable, f.BMCReason, f.BMCUnknown, f.BMCStuck = bmc.BMCReachable, bmc.BMCReason, bmc.BMCUnknown, bmc.BMCStuck
	if f.ReachableUnknown && !bmc.ReachableUnknown && bmcErr == nil && m.GetSpec().GetBmcEndpoint() != "" { // nobody has asked the host, and the BMC knows something of it
		f.Reachable, f.ReachableReason, f.ReachableUnknown = bmc.Reachable, bmc.ReachableReason, false
	}
	if bmcErr != nil {
		f.BMCReachable, f.BMCReason, f.BMCUnknown = false, reason(bmcErr), providers.WhyNotAsked(bmcErr) != ""
	}
	if hostErr != nil {
		f.Reachable, f.ReachableReason, f.ReachableUnknown = false, reason(hostErr), providers.WhyNotAsked(hostErr) != ""
	}
	if bmcErr != nil && (hostErr != nil || m.GetSpec().GetSshEndpoint() == "") {
		return providers.Facts{}, errors.Join(bmcErr, hostErr)
	}
	if hostErr != nil && m.GetSpec().GetBmcEndpoint() == "" {
		return providers.Facts{}, hostErr
	}
	return f, nil
}

// Health asks the BMC.
func (p *Provider) Health(ctx context.Context, m providers.Machine) (providers.Health, error) {
	what := "read the health of " + m.GetMachineId()
	r, ok := p.bmc.(providers.HealthReader)
	if m.GetSpec().GetBmcEndpoint() == "" {
		return providers.Health{}, providers.Errorf(providers.Unsupported, what, "%w", &providers.NotAsked{Reason: "NoBMC", Err: errors.New("the machine has no BMC endpoint")})
	}
	if !ok {
		return providers.Health{}, providers.Errorf(providers.Unsupported, what, "its BMC does not tell")
	}
	return r.Health(ctx, m)
}

// reason names a failed look as conditions show it.
func reason(err error) string {
	if why := providers.WhyNotAsked(err); why != "" {
		return why
	}
	switch providers.ClassOf(err) {
	case providers.Auth:
		return "AuthFailed"
	case providers.Timeout:
		return "Timeout"
	case providers.Unsupported:
		return "Unsupported"
	case providers.Gone:
		return "Gone"
	}
	return "Failed"
}

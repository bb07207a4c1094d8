// Package datacenter is the provider of machines that stand in racks of ours: a BMC for power, boot device and media, and SSH for the host
// (DESIGN §8). It owns no connection and no rule of its own: it hands each capability to the half that has it, and puts what
// both have seen of a machine together.
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

// Provider drives machines through both.
type Provider struct {
	providers.PowerController
	providers.BootController
	providers.MediaController
	providers.RemoteExecutor
	providers.NetConfigurator
	HostOnly
	providers.Settler

	bmc, host providers.Inspector
}

// New makes a provider of two halves. The BMC's says how late its effects show: a host refuses what comes late by itself.
func New(bmc BMC, settle providers.Settler, host Host) *Provider {
	return &Provider{PowerController: bmc, BootController: bmc, MediaController: bmc, RemoteExecutor: host, NetConfigurator: host, HostOnly: host, Settler: settle, bmc: bmc, host: host}
}

// Kind is "datacenter".
func (p *Provider) Kind() string { return "datacenter" }

// Inspect looks at the BMC and at the host at the same time. A half that a machine has no endpoint of is not asked. What one half has
// seen is told also when the other one has failed to look; it is an error when neither could.
func (p *Provider) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	var g errgroup.Group
	bmc, host := providers.Facts{BMCReason: "NoBMC"}, providers.Facts{ReachableReason: "NoSSHEndpoint"}
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
	if bmcErr != nil {
		f.BMCReachable, f.BMCReason = false, reason(bmcErr)
	}
	if hostErr != nil {
		f.Reachable, f.ReachableReason = false, reason(hostErr)
	}
	if bmcErr != nil && (hostErr != nil || m.GetSpec().GetSshEndpoint() == "") {
		return providers.Facts{}, errors.Join(bmcErr, hostErr)
	}
	if hostErr != nil && m.GetSpec().GetBmcEndpoint() == "" {
		return providers.Facts{}, hostErr
	}
	return f, nil
}

// reason names a failed look as conditions show it.
func reason(err error) string {
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

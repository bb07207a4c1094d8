package bmc

import (
	"context"

	"github.com/holdfast-metal/holdfast/providers"
)

// healthDriver reads the health of the parts.
type healthDriver interface {
	Health(ctx context.Context) (providers.Health, error)
}

var _ providers.HealthReader = (*Provider)(nil)

// Health reads the health of the machine's parts from the BMC: drives, power supplies, fans,
// temperatures, and the newest entries of its event log.
func (p *Provider) Health(ctx context.Context, m providers.Machine) (providers.Health, error) {
	h, err := read(ctx, p, m, "read the health", healthDriver.Health)
	if err != nil {
		return providers.Health{}, err
	}
	return h, nil
}

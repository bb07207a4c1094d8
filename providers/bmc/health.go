package bmc

import (
	"context"

	"github.com/holdfast-metal/holdfast/providers"
)

// healthDriver reads what a BMC says of the parts.
type healthDriver interface {
	health(ctx context.Context) (providers.Health, error)
}

var _ providers.HealthReader = (*Provider)(nil)

// Health reads what the BMC says of the machine's parts: drives, power supplies, fans, temperatures, and the newest entries of its event log.
func (p *Provider) Health(ctx context.Context, m providers.Machine) (h providers.Health, err error) {
	err = p.operate(ctx, m, "read the health", false, func(ctx context.Context, _ *controller, d any, by Protocol) error {
		r, err := need[healthDriver](d, by, "read the health")
		if err == nil {
			h, err = r.health(ctx)
		}
		return err
	})
	if err != nil {
		return providers.Health{}, err
	}
	return h, nil
}

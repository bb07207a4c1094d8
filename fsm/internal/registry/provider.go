package registry

import (
	"cmp"
	"crypto/sha256"
	"iter"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// maxProviders bounds the providers of one pool.
const maxProviders = 16

// providersOf returns the number of providers of a pool.
func providersOf(t *core.Tx, pool string) int {
	return t.Providers.Count(schema.ProvidersByPool, pool+"\x01") -
		t.Providers.Count(schema.ProvidersByPool, schema.PoolKey(pool))
}

// RegisterProvider replaces the registration of a marketplace provider (POOLREG-18060). Only
// the hash of its token is stored.
func RegisterProvider(t *core.Tx, c *internalv1.RegisterProvider) (*holdfastv1.PlatformProvider, *refusal.Error) {
	p := c.GetProvider()
	if !lex.ValidName(p.GetProviderId(), core.MaxPoolName) {
		return nil, refusal.InvalidField("provider.provider_id",
			"%q is not 1 to %d letters, digits, '.', '_', '-' or ':'",
			p.GetProviderId(), core.MaxPoolName)
	}
	if n := len(p.GetAuthTokenSha256()); n != 0 && n != sha256.Size {
		return nil, refusal.InvalidField("provider.auth_token_sha256", "has %d bytes, want %d", n, sha256.Size)
	}
	for _, f := range []struct{ name, value string }{
		{"endpoint", p.GetEndpoint()}, {"currency", p.GetCurrency()},
		{"country", p.GetCountry()}, {"region", p.GetRegion()},
	} {
		if len(f.value) > maxPoolText {
			return nil, refusal.InvalidField("provider."+f.name, "has %d bytes, at most %d are allowed",
				len(f.value), maxPoolText)
		}
	}
	if problem := endpointProblem(p.GetEndpoint()); problem != "" {
		return nil, refusal.InvalidField("provider.endpoint", "%s", problem)
	}
	for _, f := range []struct {
		name        string
		value, most float64
	}{
		{"price_per_token", p.GetPricePerToken(), 1e9}, {"price_per_hour", p.GetPricePerHour(), 1e9},
		{"total_gpus", float64(p.GetTotalGpus()), 1e9}, {"total_vram_gb", p.GetTotalVramGb(), 1e9},
		{"uptime_guarantee", p.GetUptimeGuarantee(), 100}, {"max_latency_ms", p.GetMaxLatencyMs(), 1e9},
	} {
		if !(f.value >= 0 && f.value <= f.most) { // NaN fails too
			return nil, refusal.InvalidField("provider."+f.name, "%v is not 0 to %v", f.value, f.most)
		}
	}
	if len(p.GetGpuModels()) > limits.Gpus {
		return nil, refusal.InvalidField("provider.gpu_models", "are %d, at most %d are allowed",
			len(p.GetGpuModels()), limits.Gpus)
	}
	if pool := p.GetPoolId(); pool != "" && !lex.Printable(pool, core.MaxPoolName) {
		return nil, refusal.InvalidField("provider.pool_id", "%q is not 1 to %d visible characters",
			pool, core.MaxPoolName)
	}
	p.CreatedAt, p.UpdatedAt, p.Status = t.Now, t.Now, "registered"
	old, exists := t.Providers.Get(p.GetProviderId())
	if exists {
		p.CreatedAt, p.PoolId = old.GetCreatedAt(), cmp.Or(p.GetPoolId(), old.GetPoolId())
	}
	if pool := p.GetPoolId(); pool != "" && pool != old.GetPoolId() && providersOf(t, pool) >= maxProviders {
		return nil, refusal.New(refusal.FailedPrecondition, "PROVIDER_LIMIT",
			"pool %q already has %d providers, the maximum", pool, maxProviders).
			With("pool_id", pool)
	}
	t.Providers.Put(p)
	return p, nil
}

// DeleteProvider deletes a marketplace provider.
func DeleteProvider(t *core.Tx, c *internalv1.DeleteProvider) *refusal.Error {
	if !t.Providers.Has(c.GetProviderId()) {
		return refusal.New(refusal.NotFound, "PROVIDER_NOT_FOUND", "provider %q not found", c.GetProviderId()).
			With("provider_id", c.GetProviderId())
	}
	t.Providers.Delete(c.GetProviderId())
	return nil
}

// Provider returns a marketplace provider.
func (v *View) Provider(id string) (*holdfastv1.PlatformProvider, bool) {
	return v.s.Providers.Get(id)
}

// Providers returns the marketplace providers with an id above after, by id.
func (v *View) Providers(after string) iter.Seq[*holdfastv1.PlatformProvider] {
	return v.s.Providers.Ascend("", after)
}

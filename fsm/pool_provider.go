package fsm

import (
	"crypto/sha256"
	"iter"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// maxProviders bounds the providers of one pool.
const maxProviders = 16

// providerSubject returns the pool of a provider as the subject: a manager may register
// providers of its own pool, and may not replace others.
func (t *tx) providerSubject(in *holdfastv1.PlatformProvider) subject {
	about := named("providers", in.GetProviderId())
	old, exists := t.providers.Get(in.GetProviderId())
	if exists && old.GetPoolId() == "" {
		return about // an operator's
	}
	for _, pool := range []string{old.GetPoolId(), in.GetPoolId()} {
		if pool != "" {
			about.pools = append(about.pools, pool)
		}
	}
	return about
}

// providersOf returns the number of providers of a pool.
func (t *tx) providersOf(pool string) int {
	n := 0
	for p := range t.providers.Ascend("", "") {
		if p.GetPoolId() == pool {
			n++
		}
	}
	return n
}

// registerProvider replaces the registration of a marketplace provider (POOLREG-18060). Only
// the hash of its token is stored.
func (t *tx) registerProvider(c *internalv1.RegisterProvider) (*holdfastv1.PlatformProvider, *Error) {
	p := c.GetProvider()
	if !lex.ValidName(p.GetProviderId(), maxPoolName) {
		return nil, invalid("provider.provider_id", "%q is not 1 to %d letters, digits, '.', '_', '-' or ':'",
			p.GetProviderId(), maxPoolName)
	}
	if n := len(p.GetAuthTokenSha256()); n != 0 && n != sha256.Size {
		return nil, invalid("provider.auth_token_sha256", "has %d bytes, want %d", n, sha256.Size)
	}
	for _, f := range []struct{ name, value string }{
		{"endpoint", p.GetEndpoint()}, {"currency", p.GetCurrency()},
		{"country", p.GetCountry()}, {"region", p.GetRegion()},
	} {
		if len(f.value) > maxPoolText {
			return nil, invalid("provider."+f.name, "has %d bytes, at most %d are allowed", len(f.value), maxPoolText)
		}
	}
	if len(p.GetGpuModels()) > maxGpus {
		return nil, invalid("provider.gpu_models", "are %d, at most %d are allowed", len(p.GetGpuModels()), maxGpus)
	}
	if pool := p.GetPoolId(); pool != "" && !lex.Printable(pool, maxPoolName) {
		return nil, invalid("provider.pool_id", "%q is not 1 to %d visible characters", pool, maxPoolName)
	}
	p.CreatedAt, p.UpdatedAt, p.Status = t.now, t.now, "registered"
	old, exists := t.providers.Get(p.GetProviderId())
	if exists {
		p.CreatedAt, p.PoolId = old.GetCreatedAt(), lex.First(p.GetPoolId(), old.GetPoolId())
	}
	if pool := p.GetPoolId(); pool != "" && pool != old.GetPoolId() && t.providersOf(pool) >= maxProviders {
		return nil, refuse(FailedPrecondition, "PROVIDER_LIMIT",
			"pool %q already has %d providers, the maximum", pool, maxProviders).
			With("pool_id", pool)
	}
	t.providers.Put(p)
	return p, nil
}

// deleteProvider deletes a marketplace provider.
func (t *tx) deleteProvider(c *internalv1.DeleteProvider) *Error {
	if !t.providers.Has(c.GetProviderId()) {
		return refuse(NotFound, "PROVIDER_NOT_FOUND", "provider %q not found", c.GetProviderId()).
			With("provider_id", c.GetProviderId())
	}
	t.providers.Delete(c.GetProviderId())
	return nil
}

// Provider returns a marketplace provider.
func (v *View) Provider(id string) (*holdfastv1.PlatformProvider, bool) { return v.providers.Get(id) }

// Providers returns the marketplace providers with an id above after, by id.
func (v *View) Providers(after string) iter.Seq[*holdfastv1.PlatformProvider] {
	return v.providers.Ascend("", after)
}

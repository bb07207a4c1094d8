package fsm

import (
	"crypto/sha256"
	"iter"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func providerSchema() *schema[holdfastv1.PlatformProvider, *holdfastv1.PlatformProvider] {
	return &schema[holdfastv1.PlatformProvider, *holdfastv1.PlatformProvider]{
		kind: internalv1.SnapshotRecord_PROVIDERS,
		key:  (*holdfastv1.PlatformProvider).GetProviderId,
	}
}

// registerProvider takes a marketplace provider's registration, in full (POOLREG-18060). Of its token the hash alone is kept.
func (t *tx) registerProvider(c *internalv1.RegisterProvider) (*holdfastv1.PlatformProvider, *Error) {
	p := c.GetProvider()
	if !validName(p.GetProviderId(), maxPoolName) {
		return nil, invalid("provider.provider_id", "%q is not 1 to %d letters, digits, '.', '_', '-' or ':'", p.GetProviderId(), maxPoolName)
	}
	if n := len(p.GetAuthTokenSha256()); n != 0 && n != sha256.Size {
		return nil, invalid("provider.auth_token_sha256", "has %d bytes, want %d", n, sha256.Size)
	}
	for _, f := range []struct{ name, value string }{{"endpoint", p.GetEndpoint()}, {"currency", p.GetCurrency()}, {"country", p.GetCountry()}, {"region", p.GetRegion()}} {
		if len(f.value) > maxPoolText {
			return nil, invalid("provider."+f.name, "has %d bytes, at most %d are allowed", len(f.value), maxPoolText)
		}
	}
	if len(p.GetGpuModels()) > maxGpus {
		return nil, invalid("provider.gpu_models", "are %d, at most %d are allowed", len(p.GetGpuModels()), maxGpus)
	}
	p.CreatedAt, p.UpdatedAt, p.Status = t.now, t.now, "registered"
	if old, ok := t.providers.get(p.GetProviderId()); ok {
		p.CreatedAt = old.GetCreatedAt()
	}
	t.providers.put(p)
	return p, nil
}

// Provider gives a marketplace provider.
func (v *View) Provider(id string) (*holdfastv1.PlatformProvider, bool) { return v.providers.get(id) }

// Providers gives the marketplace providers with an id above after, by id.
func (v *View) Providers(after string) iter.Seq[*holdfastv1.PlatformProvider] {
	return v.providers.ascend("", after)
}

package registry

import (
	"context"
	"crypto/sha256"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// RegisterProvider registers a marketplace provider (POOLREG-18060). If the caller is the
// manager of a pool, the provider belongs to that pool.
func (s *Pools) RegisterProvider(
	ctx context.Context, r *holdfastv1.RegisterProviderRequest,
) (*holdfastv1.RegisterProviderResponse, error) {
	if err := request.Required("provider_id", r.GetProvider().GetProviderId()); err != nil {
		return nil, err
	}
	p := request.WithoutUnknown(r.GetProvider())
	err := finite(
		measured{"provider.price_per_token", p.GetPricePerToken()},
		measured{"provider.price_per_hour", p.GetPricePerHour()},
		measured{"provider.total_vram_gb", p.GetTotalVramGb()},
		measured{"provider.uptime_guarantee", p.GetUptimeGuarantee()},
		measured{"provider.max_latency_ms", p.GetMaxLatencyMs()},
	)
	if err != nil {
		return nil, err
	}
	p.Status, p.CreatedAt, p.UpdatedAt = "", nil, nil
	if who := auth.From(ctx); who.GetRole() == holdfastv1.Role_POOL_AGENT && len(who.GetPools()) == 1 {
		p.PoolId = who.GetPools()[0]
	}
	if n := len(p.GetAuthTokenSha256()); n != 0 && n != sha256.Size {
		return nil, request.Invalid("auth_token_sha256", "is not a SHA-256 sum")
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_RegisterProvider{RegisterProvider: &internalv1.RegisterProvider{Provider: p}}
	p, err = edge.Apply[*holdfastv1.PlatformProvider](ctx, s.Cluster, c)
	if err != nil {
		return nil, err
	}
	return &holdfastv1.RegisterProviderResponse{
		Provider: withoutToken(p), PlatformMarginPercent: s.margin,
	}, nil
}

// DeleteProvider deletes a marketplace provider.
func (s *Pools) DeleteProvider(
	ctx context.Context, r *holdfastv1.DeleteProviderRequest,
) (*holdfastv1.DeleteProviderResponse, error) {
	if err := request.Required("provider_id", r.GetProviderId()); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_DeleteProvider{DeleteProvider: &internalv1.DeleteProvider{ProviderId: r.GetProviderId()}}
	return edge.ApplyEmpty[holdfastv1.DeleteProviderResponse](ctx, s.Cluster, c)
}

// ListProviders lists marketplace providers by id. A caller that is scoped to pools sees
// only the providers of those pools. A provider that an operator registered belongs to no
// pool.
func (s *Pools) ListProviders(
	ctx context.Context, r *holdfastv1.ListProvidersRequest,
) (*holdfastv1.ListProvidersResponse, error) {
	p, v, err := page.Open(ctx, s.Cluster.View, r, "providers")
	if err != nil {
		return nil, err
	}
	who, resp := auth.From(ctx), &holdfastv1.ListProvidersResponse{}
	rows := page.Keyed(v.Providers(p.After), (*holdfastv1.PlatformProvider).GetProviderId)
	resp.Providers, resp.NextPageToken, err = page.Collect(ctx, p, rows, func(p *holdfastv1.PlatformProvider) bool {
		return auth.InScope(who, p.GetPoolId())
	})
	for i, p := range resp.GetProviders() {
		resp.Providers[i] = withoutToken(p)
	}
	return resp, err
}

// withoutToken returns a provider without the hash of its token. The provider has chosen
// the token, and the hash has no salt, so a reader of the hash could guess the token.
func withoutToken(p *holdfastv1.PlatformProvider) *holdfastv1.PlatformProvider {
	p = proto.CloneOf(p)
	p.AuthTokenSha256 = nil
	return p
}

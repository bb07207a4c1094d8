package poolreg

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

// Platform is a marketplace to register with (POOLREG-18060).
type Platform struct {
	Server
	ProviderID string // required
	Endpoint   string // at which the platform reaches the provider. Empty: the pool's
	// AuthToken authenticates the platform at the endpoint. It is sent to the platform
	// only.
	AuthToken string
	Pricing   Pricing
	// Capacity is the capacity on offer. Nil means all GPUs of the pool.
	Capacity *Capacity
	SLA      SLA
	Geo      Geo
	// Refresh is the time between registrations. There are no heartbeats: a platform that
	// has lost its state learns of the provider from the next registration. Zero means
	// DefaultPlatformRefresh.
	Refresh time.Duration
}

// Pricing is the provider's prices.
type Pricing struct {
	PerToken float64 `json:"per_token"`
	PerHour  float64 `json:"per_hour"`
	Currency string  `json:"currency"` // "EUR"
}

// SLA is the service level that the provider promises.
type SLA struct {
	UptimeGuarantee float64 `json:"uptime_guarantee"` // percent
	MaxLatencyMs    int     `json:"max_latency_ms"`
}

// Geo is the provider's location.
type Geo struct {
	Country string `json:"country"`
	Region  string `json:"region"`
}

// providerRequest is the body of POST /v2/platform/providers/register.
type providerRequest struct {
	ProviderID string   `json:"provider_id"`
	Endpoint   string   `json:"endpoint"`
	AuthToken  string   `json:"auth_token"`
	Pricing    Pricing  `json:"pricing"`
	Capacity   Capacity `json:"capacity"`
	SLA        SLA      `json:"sla"`
	Geo        Geo      `json:"geo"`
}

// platform is the registration with a platform.
type platform struct {
	*link
	cfg    Platform
	source Source
}

func newPlatform(cfg Config, source Source) (*platform, error) {
	p := *cfg.Platform
	if p.ProviderID == "" {
		return nil, errors.New("no provider id")
	}
	p.Endpoint = cmp.Or(p.Endpoint, cfg.Pool.Endpoint)
	if p.Refresh <= 0 {
		p.Refresh = DefaultPlatformRefresh
	}
	l, err := newLink(cfg, p.Server, "platform_", p.Refresh, cfg.Logger.With("provider_id", p.ProviderID))
	if err != nil {
		return nil, err
	}
	if p.AuthToken != "" && !cfg.AllowPlaintext {
		if err := l.peers.RequireSecret(); err != nil {
			return nil, err
		}
	}
	return &platform{link: l, cfg: p, source: source}, nil
}

// run registers at each interval. The specification has no deregistration from a platform.
func (p *platform) run(ctx context.Context) {
	defer p.peers.Close()
	defer p.gone()
	for {
		if p.retry(ctx, p.register) != nil {
			return
		}
		if rest.Sleep(ctx, rest.Early(p.get().Interval)) != nil {
			return
		}
	}
}

func (p *platform) register(ctx context.Context) error {
	req := providerRequest{
		ProviderID: p.cfg.ProviderID, Endpoint: p.cfg.Endpoint, AuthToken: p.cfg.AuthToken,
		Pricing: p.cfg.Pricing, SLA: p.cfg.SLA, Geo: p.cfg.Geo,
	}
	if p.cfg.Capacity != nil {
		req.Capacity = *p.cfg.Capacity
	} else {
		state, err := p.source.State(ctx)
		if err != nil {
			return fmt.Errorf("collect the state: %w", err)
		}
		req.Capacity = state.capacity()
	}
	if req.Capacity.GPUModels == nil {
		req.Capacity.GPUModels = []string{}
	}
	answer, err := p.post(ctx, "/v2/platform/providers/register", req)
	if err != nil {
		return err
	}
	first := !p.get().Connected
	p.succeeded(0)
	if first {
		var body struct {
			Margin json.Number `json:"platform_margin_percent"`
		}
		_ = json.Unmarshal(answer.Body, &body)
		p.log.InfoContext(ctx, "registered with the platform", "platform_margin_percent", body.Margin)
	}
	return nil
}

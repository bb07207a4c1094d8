package fake

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// Provider drives a fleet over its HTTP API. It has all capabilities. It is safe for concurrent
// use.
type Provider struct {
	client   *http.Client
	endpoint string // without a trailing slash
	fleet    *Fleet // nil if it is in another process
	fixed    time.Duration
	learned  atomic.Int64 // longest settle time reported by a remote fleet, in nanoseconds
}

var (
	_ providers.Inspector       = (*Provider)(nil)
	_ providers.PowerController = (*Provider)(nil)
	_ providers.BootController  = (*Provider)(nil)
	_ providers.MediaController = (*Provider)(nil)
	_ providers.Imager          = (*Provider)(nil)
	_ providers.RemoteExecutor  = (*Provider)(nil)
	_ providers.ClusterJoiner   = (*Provider)(nil)
	_ providers.NetConfigurator = (*Provider)(nil)
	_ providers.Console         = (*Provider)(nil)
	_ providers.Identifier      = (*Provider)(nil)
	_ providers.EventLog        = (*Provider)(nil)
	_ providers.BMCResetter     = (*Provider)(nil)
	_ providers.InventoryReader = (*Provider)(nil)
	_ providers.Settler         = (*Provider)(nil)
	_ providers.HealthReader    = (*Provider)(nil)
	_ providers.Factory         = Factory
)

// New returns the provider of a fleet in this process.
func New(f *Fleet) *Provider {
	return &Provider{
		client:   &http.Client{Transport: direct{f.Handler()}},
		endpoint: "http://fake.invalid",
		fleet:    f,
	}
}

// NewRemote returns the provider of a fleet in another process, e.g. at "http://127.0.0.1:7450". A
// settle time above zero is fixed; otherwise the fleet reports it.
func NewRemote(endpoint string, settle time.Duration) (*Provider, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		return nil, fmt.Errorf(`endpoint %q is not an address like "http://127.0.0.1:7450"`, endpoint)
	}
	return &Provider{client: remoteClient(), endpoint: strings.TrimSuffix(endpoint, "/"), fixed: settle}, nil
}

// Factory builds a provider from its configuration. The keys are "endpoint" for a fleet in another
// process, or else the keys of Config for a fleet of its own, and "settle" in both cases. The error
// for an unknown key names the key.
func Factory(_ string, config json.RawMessage, log *slog.Logger) (providers.Provider, error) {
	fields := make(map[string]json.RawMessage)
	if len(config) > 0 {
		if err := json.Unmarshal(config, &fields); err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
	}
	var settle Duration
	if raw, ok := fields["settle"]; ok {
		if err := json.Unmarshal(raw, &settle); err != nil {
			return nil, fmt.Errorf("settle: %w", err)
		}
		delete(fields, "settle")
	}
	if raw, ok := fields["endpoint"]; ok {
		delete(fields, "endpoint")
		if len(fields) > 0 {
			return nil, fmt.Errorf("key %q cannot be combined with an endpoint: configure the fleet there",
				slices.Min(slices.Collect(maps.Keys(fields))))
		}
		var endpoint string
		if err := json.Unmarshal(raw, &endpoint); err != nil {
			return nil, errors.New("endpoint is not a string")
		}
		return NewRemote(endpoint, time.Duration(settle))
	}
	rest, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	c, err := ParseConfig(rest)
	if err != nil {
		return nil, err
	}
	log.Debug("created fake fleet in memory", "seed", c.Seed)
	p := New(NewFleet(c))
	p.fixed = time.Duration(settle)
	return p, nil
}

// Kind returns "fake".
func (p *Provider) Kind() string { return "fake" }

// Fleet returns the fleet if it is in this process, else nil.
func (p *Provider) Fleet() *Fleet { return p.fleet }

// Settle returns how late an effect can show: the configured time, else twice the latency plus the
// maximum of a second and twice the power time. It is a second for a remote fleet that has not
// answered yet.
func (p *Provider) Settle(m providers.Machine) time.Duration {
	switch {
	case p.fixed > 0:
		return p.fixed
	case p.fleet != nil:
		return p.fleet.settle(m.GetMachineId())
	}
	return max(time.Second, time.Duration(p.learned.Load()))
}

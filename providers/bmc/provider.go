package bmc

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/internal/settings"
)

// Provider drives machines through their BMCs. It is safe for concurrent use. Run ends unused
// sessions, and Close ends all of them.
type Provider struct {
	cfg         Config
	credentials Credentials
	memory      Memory
	log         *slog.Logger
	called      func(Call)
	now         func() time.Time
	tls         *tls.Config

	mu      sync.Mutex
	closed  bool
	bmcs    map[string]*controller
	devices map[string]*device
}

var (
	_ providers.Inspector       = (*Provider)(nil)
	_ providers.PowerController = (*Provider)(nil)
	_ providers.BootController  = (*Provider)(nil)
	_ providers.MediaController = (*Provider)(nil)
	_ providers.Console         = (*Provider)(nil)
	_ providers.Identifier      = (*Provider)(nil)
	_ providers.EventLog        = (*Provider)(nil)
	_ providers.BMCResetter     = (*Provider)(nil)
	_ providers.InventoryReader = (*Provider)(nil)
	_ providers.Settler         = (*Provider)(nil)
	_ providers.HealthReader    = (*Provider)(nil)
)

// New returns a provider. It connects to no BMC before the first operation.
func New(c Config, d Deps) (*Provider, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if d.Credentials == nil {
		return nil, errors.New("create provider bmc: no Credentials")
	}
	verify, err := settings.TLS(c.TLS, c.CAFile, d.SkipFiles)
	if err != nil {
		return nil, err
	}
	if d.Memory == nil {
		d.Memory = NewInMemory()
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	d.Log = cmp.Or(d.Log, slog.New(slog.DiscardHandler))
	return &Provider{
		cfg:         c,
		credentials: d.Credentials,
		memory:      d.Memory,
		log:         d.Log,
		called:      d.Called,
		now:         d.Now,
		tls:         verify,
		bmcs:        map[string]*controller{},
		devices:     map[string]*device{},
	}, nil
}

// Kind returns "bmc".
func (p *Provider) Kind() string { return "bmc" }

// closeTime bounds the end of all sessions after the caller's context has ended.
const closeTime = 15 * time.Second

// Run ends unused sessions until ctx ends, and then all sessions.
func (p *Provider) Run(ctx context.Context) error {
	t := time.NewTicker(max(p.cfg.Idle/4, 10*time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.each(func(c *controller) {
				if err := c.redfish.Idle(ctx, p.cfg.Idle); err != nil && ctx.Err() == nil {
					p.log.Warn("ending an unused session failed, will retry", "bmc", c.key, "error", err)
				}
			})
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
			defer cancel()
			return p.Close(ctx)
		}
	}
}

// Release ends all sessions when this peer stops leading. The provider can be used again: it then
// loads the state that other leaders have stored.
func (p *Provider) Release(ctx context.Context) error {
	p.Recall()
	return p.release(ctx, false)
}

// Recall makes the provider load the stored state of each BMC before its next operation. A peer
// calls it when it begins to lead.
func (p *Provider) Recall() {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.bmcs))
	p.mu.Unlock()
	for _, c := range all {
		c.invalidate()
	}
}

// Close ends all sessions. Later operations, and those under way, are refused.
func (p *Provider) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	return p.release(ctx, true)
}

func (p *Provider) release(ctx context.Context, closing bool) error {
	var mu sync.Mutex
	var errs []error
	p.each(func(c *controller) {
		err := c.redfish.Release(ctx, closing)
		if err == nil {
			err = p.drop(ctx, c)
		}
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	})
	return errors.Join(errs...)
}

// drop removes a BMC without a session, so that a former leader keeps no state of machines. An
// operation under way is refused, and a session that it has opened since is ended.
func (p *Provider) drop(ctx context.Context, c *controller) error {
	p.mu.Lock()
	if p.bmcs[c.key] == c {
		delete(p.bmcs, c.key)
	}
	p.mu.Unlock()
	return c.redfish.Release(ctx, true)
}

// maxConcurrent bounds how many BMCs each contacts concurrently.
const maxConcurrent = 64

// each calls f for every BMC, many concurrently.
func (p *Provider) each(f func(*controller)) {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.bmcs))
	p.mu.Unlock()
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxConcurrent)
	for _, c := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(c)
		})
	}
	wg.Wait()
}

// Settle returns how late a press can show: the BMC's own delay, and over IPMI the run time of
// ipmitool.
func (p *Provider) Settle(m providers.Machine) time.Duration {
	d, sends := p.cfg.Settle, p.cfg.CommandTime
	e, c, err := p.known(m)
	if err != nil {
		return d // nothing can be sent
	}
	if e.only == Redfish || p.cfg.Protocol == Redfish {
		sends = 0
	}
	if c != nil {
		c.state.Lock()
		defer c.state.Unlock()
		if c.driver == Redfish {
			sends = 0
		}
		for _, h := range c.hosts {
			d = max(d, h.Settle())
		}
	}
	return d + sends
}

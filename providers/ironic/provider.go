package ironic

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// Deps are the dependencies of a provider.
type Deps struct {
	Credentials Credentials // may be nil with auth: none
	Log         *slog.Logger
	SkipFiles   bool // read no ca_file: the configuration is checked, not used
}

// Provider drives machines through one Ironic. It is safe for concurrent use.
type Provider struct {
	cfg  Config
	door *door
	log  *slog.Logger

	mu      sync.Mutex
	seen    map[string]*node     // nodes as last read, by the name that the machine uses
	pressed map[string]time.Time // nodes with a pending power change
}

var (
	_ providers.Inspector       = (*Provider)(nil)
	_ providers.PowerController = (*Provider)(nil)
	_ providers.BootController  = (*Provider)(nil)
	_ providers.Imager          = (*Provider)(nil)
	_ providers.Settler         = (*Provider)(nil)
)

// New returns a provider. It does not contact Ironic before the first call.
func New(c Config, d Deps) (*Provider, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	if c.Auth != AuthNone && d.Credentials == nil {
		return nil, errors.New("create provider ironic: no Credentials")
	}
	client, err := c.http(d.SkipFiles)
	if err != nil {
		return nil, err
	}
	d.Log = cmp.Or(d.Log, slog.New(slog.DiscardHandler))
	return &Provider{
		cfg:     c,
		log:     d.Log,
		seen:    map[string]*node{},
		pressed: map[string]time.Time{},
		door: &door{
			cfg:         c,
			credentials: d.Credentials,
			http:        client,
			turn:        make(chan struct{}, 1),
		},
	}, nil
}

// Kind returns "ironic".
func (p *Provider) Kind() string { return "ironic" }

// Close closes the connections to Ironic. A token of keystone expires by itself.
func (p *Provider) Close() { p.door.http.CloseIdleConnections() }

// Settle returns how late an accepted request can show.
func (p *Provider) Settle(providers.Machine) time.Duration { return time.Duration(p.cfg.SettleTime) }

// call performs one operation on a node. It calls f with a session. It calls f again if Ironic has
// refused and nothing was done: because the session had expired, the microversion is no longer
// supported, or the node was locked.
func (p *Provider) call(
	ctx context.Context,
	m providers.Machine,
	what string,
	effect bool,
	f func(ctx context.Context, s *session, id string) error,
) error {
	what += " of " + m.GetMachineId()
	if err := ctx.Err(); err != nil {
		return classify(what, err, false)
	}
	if effect {
		if err := providers.InTime(ctx, what); err != nil {
			return err
		}
	}
	id, err := nodeOf(m)
	if err != nil {
		return providers.Errorf(providers.Unsupported, what, "%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.cfg.Timeout))
	defer cancel()
	err = p.try(ctx, what, id, f)
	if effect && providers.ClassOf(err) != providers.Late {
		p.forget(id)
	}
	return classify(what, err, effect)
}

func (p *Provider) try(
	ctx context.Context, what, id string, f func(ctx context.Context, s *session, id string) error,
) error {
	lockEnd := time.Now().Add(time.Duration(p.cfg.LockTime))
	for again := true; ; {
		s, err := p.door.open(providers.Unhurried(ctx))
		if err != nil {
			return classify(what, err, false) // nothing was sent
		}
		err = f(ctx, s, id)
		switch code := status(err); {
		case code == http.StatusUnauthorized && again:
			if err := p.door.rejected(s); err != nil {
				return err
			}
			again = false
		case code == http.StatusNotAcceptable && again:
			p.door.leave(s)
			again = false
		case locked(err) && time.Now().Before(lockEnd):
			if waited := p.unlocked(providers.Unhurried(ctx), s, id, lockEnd); waited != nil {
				return err
			}
		default:
			if err == nil {
				p.door.welcome(s)
			}
			return err
		}
	}
}

package sshexec

import (
	"log/slog"
	"sync"

	"github.com/holdfast-metal/holdfast/providers"
)

// Provider drives hosts over SSH. It is safe for concurrent use, and must be closed.
type Provider struct {
	cfg         Config
	credentials Credentials
	keys        HostKeys
	log         *slog.Logger

	pool     pool
	refusals refusals
	watching sync.WaitGroup // goroutines of open connections
}

var (
	_ providers.Inspector      = (*Provider)(nil)
	_ providers.RemoteExecutor = (*Provider)(nil)
)

// New returns a provider. It opens no connection before the first call.
func New(cfg Config, credentials Credentials, keys HostKeys, log *slog.Logger) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Provider{
		cfg:         cfg.withDefaults(),
		credentials: credentials,
		keys:        jumpKeys{keys, cfg.Jump},
		log:         log,
		pool: pool{
			links:   map[target]*link{},
			open:    map[*link]struct{}{},
			dialing: map[target]chan struct{}{},
		},
		refusals: refusals{seen: map[target]refusal{}},
	}, nil
}

// Kind returns "ssh".
func (p *Provider) Kind() string { return "ssh" }

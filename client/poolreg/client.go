package poolreg

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

// Client keeps one pool registered.
type Client struct {
	cfg          Config
	orchestrator *orchestrator // nil: none
	platform     *platform     // nil: none
}

// Status is how a registration is doing.
type Status struct {
	// Connected means that the server has taken a registration or a heartbeat, and that not
	// three heartbeats in a row have failed since.
	Connected bool
	// Interval is the time between heartbeats (of a platform: registrations).
	Interval time.Duration
	// Failures counts the requests that failed since one was taken, Err is the last of their
	// errors.
	Failures int
	Err      error
	// Progress is when something was last tried.
	Progress time.Time
}

// New checks the configuration. Nothing is sent yet.
func New(cfg Config, source Source) (*Client, error) {
	c, err := newClient(cfg, source)
	if err != nil {
		return nil, fmt.Errorf("set up the pool registration: %w", err)
	}
	return c, nil
}

func newClient(cfg Config, source Source) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg}
	if cfg.Orchestrator != nil {
		if c.orchestrator, err = newOrchestrator(cfg, source); err != nil {
			return nil, fmt.Errorf("orchestrator: %w", err)
		}
	}
	if cfg.Platform != nil {
		if c.platform, err = newPlatform(cfg, source); err != nil {
			return nil, fmt.Errorf("platform: %w", err)
		}
	}
	return c, nil
}

// Run keeps the pool registered until the context ends; then it deregisters it, within five
// seconds, and returns nil.
func (c *Client) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	if c.orchestrator != nil {
		wg.Go(func() { c.orchestrator.run(ctx) })
	}
	if c.platform != nil {
		wg.Go(func() { c.platform.run(ctx) })
	}
	wg.Wait()
	return nil
}

// Orchestrator reports how the registration there is doing; nothing if there is none.
func (c *Client) Orchestrator() Status {
	if c.orchestrator == nil {
		return Status{}
	}
	return c.orchestrator.get()
}

// Platform reports how the registration there is doing; nothing if there is none.
func (c *Client) Platform() Status {
	if c.platform == nil {
		return Status{}
	}
	return c.platform.get()
}

// link is what both kinds of registration have: a server, and how it is doing.
type link struct {
	peers   *rest.Peers
	log     *slog.Logger
	metrics *metrics
	backoff rest.Backoff

	mu     sync.Mutex
	status Status
}

func newLink(cfg Config, s Server, prefix string, interval time.Duration, log *slog.Logger) (*link, error) {
	peers, err := cfg.peers(s)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registerer, prefix)
	if err != nil {
		return nil, err
	}
	return &link{
		peers: peers, log: log, metrics: m,
		backoff: rest.Backoff{Base: cfg.RetryBackoffBase, Max: cfg.RetryBackoffMax},
		status:  Status{Interval: interval, Progress: time.Now()},
	}, nil
}

func (l *link) get() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// took notes that the server took a request; interval is what it asked for, zero if it did not.
func (l *link) took(interval time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Connected, l.status.Failures, l.status.Err, l.status.Progress = true, 0, nil, time.Now()
	if interval > 0 {
		l.status.Interval = interval
	}
	l.metrics.connection(true)
}

// failed notes that a request failed, and whether the connection counts as lost.
func (l *link) failed(err error, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Failures++
	l.status.Err, l.status.Progress = err, time.Now()
	if lost {
		l.status.Connected = false
		l.metrics.connection(false)
	}
}

// gone notes that the pool has left.
func (l *link) gone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Connected = false
	l.metrics.connection(false)
}

// retry tries until it is done or the context ends (POOLREG-18011).
func (l *link) retry(ctx context.Context, try func(context.Context) error) error {
	for failures := 1; ; failures++ {
		err := try(ctx)
		if ctx.Err() != nil && err != nil {
			return ctx.Err()
		}
		l.metrics.registered(err)
		if err == nil {
			return nil
		}
		l.failed(err, true)
		wait := l.wait(failures, err)
		l.log.Log(ctx, level(err), "registration failed, working offline", "attempt", failures, "retry_in", wait.Round(time.Millisecond), "err", err)
		if err := rest.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func (l *link) wait(failures int, err error) time.Duration {
	return max(l.backoff.Delay(failures), rest.RetryAfter(err))
}

// level is that of an error for those who refuse us, which will not pass by itself, and of a
// warning otherwise.
func level(err error) slog.Level {
	switch rest.Status(err) {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		return slog.LevelError
	}
	return slog.LevelWarn
}

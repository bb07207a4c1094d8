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

// Status is the state of a registration.
type Status struct {
	// Connected is true after a successful registration or heartbeat, until three
	// heartbeats in a row have failed.
	Connected bool
	// Interval is the time between heartbeats (of a platform: registrations).
	Interval time.Duration
	// Failures is the number of failed requests since the last success. Err is their last
	// error.
	Failures int
	Err      error
	// Progress is the time of the last try.
	Progress time.Time
}

// New validates the configuration. Nothing is sent yet.
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

// Run keeps the pool registered until the context ends. Then it deregisters the pool,
// within five seconds, and returns nil.
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

// Orchestrator returns the state of the registration with the orchestrator, if there is
// one.
func (c *Client) Orchestrator() Status {
	if c.orchestrator == nil {
		return Status{}
	}
	return c.orchestrator.get()
}

// Platform returns the state of the registration with the platform, if there is one.
func (c *Client) Platform() Status {
	if c.platform == nil {
		return Status{}
	}
	return c.platform.get()
}

// link is the common part of both registrations: a server and the state of the
// registration.
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

// succeeded records a successful request. The interval is the one that the server requested, or
// zero.
func (l *link) succeeded(interval time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Connected, l.status.Failures, l.status.Err, l.status.Progress = true, 0, nil, time.Now()
	if interval > 0 {
		l.status.Interval = interval
	}
	l.metrics.connection(true)
}

// failed records a failed request, and whether the connection counts as lost.
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

// gone records that the pool has left.
func (l *link) gone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Connected = false
	l.metrics.connection(false)
}

// retry calls try until it succeeds or the context ends (POOLREG-18011).
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
		l.log.Log(ctx, level(err), "registration failed, working offline",
			"attempt", failures, "retry_in", wait.Round(time.Millisecond), "err", err)
		if err := rest.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func (l *link) wait(failures int, err error) time.Duration {
	return max(l.backoff.Delay(failures), rest.RetryAfter(err))
}

// level returns the log level of an error: error if the server refused the request, which
// needs an operator, and warning otherwise.
func level(err error) slog.Level {
	switch rest.Status(err) {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		return slog.LevelError
	}
	return slog.LevelWarn
}

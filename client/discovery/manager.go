package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

// maxWait bounds the time between tries while a router fails.
const maxWait = 30 * time.Second

// Phase is the phase of a registration's life.
type Phase string

// The phases of the specification's state machine.
const (
	Initial      Phase = "INITIAL"      // not registered, or not any more
	Registered   Phase = "REGISTERED"   // no ping has succeeded yet
	Active       Phase = "ACTIVE"       // the last ping succeeded
	Pinging      Phase = "PINGING"      // a ping is in progress
	Deregistered Phase = "DEREGISTERED" // Run has ended
)

// Manager keeps one service registered.
type Manager struct {
	cfg     Config
	log     *slog.Logger
	peers   *rest.Peers
	close   func()
	file    idFile
	reports *reports
	backoff rest.Backoff

	mu     sync.Mutex
	target Target
	phase  Phase
}

// New validates the configuration and the target, which must have no id. Run uses the kept
// id, or the router assigns one. Nothing is sent yet.
func New(cfg Config, target Target) (*Manager, error) {
	m, err := newManager(cfg, target)
	if err != nil {
		return nil, fmt.Errorf("set up the registration: %w", err)
	}
	return m, nil
}

func newManager(cfg Config, target Target) (*Manager, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := target.check(); err != nil {
		return nil, err
	}
	m := &Manager{
		cfg: cfg, target: target, phase: Initial, close: func() {}, reports: newReports(),
		log:     cfg.Logger.With("service", target.ServiceName),
		backoff: rest.Backoff{Base: min(time.Second, cfg.Period), Max: max(maxWait, cfg.Period)},
	}
	if m.file, err = newIDFile(cfg.DataDir, target); err != nil {
		return nil, err
	}
	transport := cfg.Transport
	if transport == nil {
		t := rest.NewTransport(cfg.TLS)
		transport, m.close = t, t.CloseIdleConnections
	}
	var tokens rest.Tokens
	if cfg.ClientID != "" {
		if tokens, err = newOAuth(cfg, transport); err != nil {
			return nil, err
		}
	}
	m.peers, err = rest.New(rest.Config{
		URLs: cfg.BaseURLs, Tokens: tokens, AllowPlaintext: cfg.AllowPlaintext,
		Transport: transport, Timeout: cfg.Timeout, UserAgent: "holdfast-discovery",
	})
	return m, err
}

// Target returns the service with its current id, if any.
func (m *Manager) Target() Target {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.target
}

// Phase returns the phase of the registration.
func (m *Manager) Phase() Phase {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.phase
}

// Healthy reports that the service is healthy. It does not block: Run sends the reports in
// order, and keeps the last ten while the router does not respond.
func (m *Manager) Healthy() { m.reports.add(now(true, ReasonHealthy)) }

// Unhealthy reports that the service is unhealthy, and why. It does not block either.
func (m *Manager) Unhealthy(reason string) { m.reports.add(now(false, reason)) }

// Run registers the service, pings for it and sends its reports until the context ends.
// Then it deregisters the service within five seconds and returns nil. No failure ends Run.
func (m *Manager) Run(ctx context.Context) error {
	defer m.close()
	defer m.set(Deregistered, "")
	if rest.Sleep(ctx, m.cfg.InitialDelay) != nil {
		return nil
	}
	kept, err := m.file.read()
	if err != nil {
		m.log.WarnContext(ctx, "cannot read the kept id, starting without it", "err", err)
	}
	if kept != "" {
		m.set(Initial, kept)
	}
	tried := false
	rest.Repeat(ctx, m.backoff, func(ctx context.Context) (pinged bool) {
		tried = true
		if m.register(ctx) != nil {
			return false // the context has ended
		}
		return m.active(ctx)
	})
	if tried && m.Target().ID != "" { // a registration may have succeeded without an answer
		m.deregister(context.WithoutCancel(ctx))
	}
	return nil
}

// set changes the phase, and the id if it is not empty.
func (m *Manager) set(p Phase, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase = p
	if id != "" {
		m.target.ID = id
	}
}

// register retries until the service is registered or the context ends: MaxRetries times at
// once, then with increasing waits.
func (m *Manager) register(ctx context.Context) error {
	m.set(Initial, "")
	schedule := rest.Backoff{Base: m.cfg.Period, Max: max(maxWait, m.cfg.Period)}
	for round := 1; ; round++ {
		var err error
		for try := range m.cfg.MaxRetries + 1 {
			if try > 0 {
				wait := max(m.cfg.RetryWait+rest.Chance(m.cfg.RetryWait/5), rest.RetryAfter(err))
				if err := rest.Sleep(ctx, wait); err != nil {
					return err
				}
			}
			err = m.tryRegister(ctx)
			if err == nil {
				return nil
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			m.log.WarnContext(ctx, "registration failed, will retry", "round", round, "try", try+1, "err", err)
			if round > 1 {
				break // one try per wait
			}
		}
		if err := rest.Sleep(ctx, max(schedule.Delay(round), rest.RetryAfter(err))); err != nil {
			return err
		}
	}
}

// active pings and sends reports until the router has forgotten the service, or the context
// ends. It reports whether any ping succeeded.
func (m *Manager) active(ctx context.Context) (pinged bool) {
	timer := time.NewTimer(rest.Early(m.cfg.Period))
	defer timer.Stop()
	if m.flushReports(ctx) {
		return false
	}
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return pinged
		case <-m.reports.wake:
			// While pings fail, reports would fail too. The next successful ping sends
			// them.
			if failures == 0 && m.flushReports(ctx) {
				return pinged
			}
		case <-timer.C:
			before := m.Phase()
			m.set(Pinging, "")
			err := m.ping(ctx)
			if err != nil {
				m.set(before, "")
			}
			switch {
			case ctx.Err() != nil:
				return pinged
			case errors.Is(err, errForgotten):
				m.log.WarnContext(ctx, "the router does not know the service, registering again")
				return pinged
			case err != nil:
				failures++
				wait := max(m.backoff.Delay(failures), rest.RetryAfter(err))
				m.log.WarnContext(ctx, "ping failed, will retry",
					"failures", failures, "retry_in", wait.Round(time.Millisecond), "err", err)
				timer.Reset(wait)
				continue
			}
			pinged, failures = true, 0
			timer.Reset(rest.Early(m.cfg.Period))
			if m.flushReports(ctx) {
				return pinged
			}
		}
	}
}

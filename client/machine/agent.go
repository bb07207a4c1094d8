package machine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

const (
	pathRegister  = "/api/v1/machine/register"
	pathKeepalive = "/api/v1/machine/keepalive"
)

// errForgotten means that the server does not know the machine.
var errForgotten = errors.New("the server does not know this machine (any more)")

// errRevoked means that the machine must enroll again.
var errRevoked = errors.New("the machine's own token was refused")

// Agent keeps one machine registered.
type Agent struct {
	cfg     Config
	source  Source
	tokens  *credentials
	peers   *rest.Peers
	log     *slog.Logger
	backoff rest.Backoff

	mu     sync.Mutex
	status Status
}

// Status is the state of an agent.
type Status struct {
	// Ready is true if the server considers the machine ready: the last keepalive
	// succeeded.
	Ready bool
	// LastKeepalive is the time of the last successful keepalive. Zero means never.
	LastKeepalive time.Time
	// Interval is the time between a successful keepalive and the next one.
	Interval time.Duration
	// Failures is the number of failed requests since the last success. Err is their last
	// error.
	Failures int
	Err      error
	// Progress is when the agent last did something: within the last minute, or within
	// Interval and the timeouts of all servers.
	Progress time.Time
}

// New validates the configuration. Nothing is sent yet.
func New(cfg Config, source Source) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	none := cfg.Token == "" && cfg.TokenFile == ""
	if none { // nothing to enroll with
		cfg.OwnTokenFile = ""
	}
	tokens, err := newCredentials(cfg.OwnTokenFile, cfg.MachineID, rest.NewTokens(cfg.TokenFile, cfg.Token))
	if err != nil {
		return nil, err
	}
	var sent rest.Tokens = tokens
	if none {
		sent = nil
	}
	peers, err := rest.New(rest.Config{
		URLs: cfg.Servers, Tokens: sent, AllowPlaintext: cfg.AllowPlaintext, TLS: cfg.TLS,
		Transport: cfg.Transport, Timeout: cfg.Timeout, UserAgent: "holdfast-agent/" + cfg.AgentVersion,
	})
	if err != nil {
		return nil, fmt.Errorf("set up the agent: %w", err)
	}
	return &Agent{
		cfg: cfg, source: source, tokens: tokens, peers: peers,
		log:     cfg.Logger.With("machine_id", cfg.MachineID, "pool", cfg.Pool),
		backoff: rest.Backoff{Base: time.Second, Max: 30 * time.Second},
		status:  Status{Progress: time.Now(), Interval: timing{}.interval(cfg.Interval)},
	}, nil
}

// Status returns the state of the agent.
func (a *Agent) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// Run registers the machine and sends keepalives until the context ends. Then it returns
// nil without deregistering, because the specification has no such call: the machine's
// lease expires.
func (a *Agent) Run(ctx context.Context) error {
	defer a.peers.Close()
	rest.Repeat(ctx, a.backoff, func(ctx context.Context) bool {
		specs, err := a.register(ctx)
		if err != nil {
			return false // the context has ended
		}
		worked, why := a.keepAlive(ctx, specs)
		if ctx.Err() == nil {
			a.log.WarnContext(ctx, "registering again", "reason", why)
		}
		return worked
	})
	return nil
}

// register retries until the machine is registered or the context ends.
func (a *Agent) register(ctx context.Context) (Specs, error) {
	for failures := 1; ; failures++ {
		specs, err := a.source.Specs(ctx)
		if err == nil {
			err = a.tryRegister(ctx, specs)
		}
		if err == nil {
			a.log.InfoContext(ctx, "registered", "hostname", specs.Hostname, "cpu_millicores", specs.CPUMillicores,
				"memory_mib", specs.MemoryMiB, "gpus", specs.GPUCount, "private_ip", specs.PrivateIP)
			return specs, nil
		}
		if err := a.pause(ctx, "register", failures, err); err != nil {
			return specs, err
		}
	}
}

func (a *Agent) tryRegister(ctx context.Context, specs Specs) error {
	token, err := a.tokens.Token(ctx)
	if err != nil {
		return err
	}
	sum, err := a.tokens.enrollment(ctx)
	if err != nil {
		return err
	}
	answer, err := a.peers.PostJSON(ctx, rest.Request{Path: pathRegister, Final: forgotten},
		specs.request(a.cfg, token, sum))
	if err != nil {
		return err
	}
	if err := answer.Err(); err != nil {
		return err
	}
	if id := enrolledAs(answer.Body); sum != "" && id != "" {
		if err := a.tokens.enrolled(); err != nil {
			return err
		}
		a.log.InfoContext(ctx, "enrolled with a token of its own", "token_id", id)
	}
	a.succeeded(false, readTiming(answer.Body))
	return nil
}

// keepAlive sends keepalives until the machine must register again, or the context ends,
// and returns why. It reports in worked whether any keepalive succeeded.
func (a *Agent) keepAlive(ctx context.Context, registered Specs) (worked bool, why error) {
	checked := time.Now()
	for failures := 0; ; {
		switch err := a.tryKeepalive(ctx); {
		case err == nil:
			if !worked || failures > 0 {
				a.log.InfoContext(ctx, "ready", "interval", a.Status().Interval)
			}
			worked, failures = true, 0
			if rest.Sleep(ctx, rest.Early(a.Status().Interval)) != nil {
				return worked, ctx.Err()
			}
		case errors.Is(err, errForgotten), errors.Is(err, errRevoked):
			return worked, err
		default:
			failures++
			if err := a.pause(ctx, "keepalive", failures, err); err != nil {
				return worked, err
			}
		}
		if time.Since(checked) >= specsEvery {
			checked = time.Now()
			if now, err := a.source.Specs(ctx); err == nil && now != registered {
				return worked, errors.New("the machine's specs have changed")
			}
		}
	}
}

func (a *Agent) tryKeepalive(ctx context.Context) error {
	req := keepaliveRequest{
		MachineID:    a.cfg.MachineID,
		ProviderName: a.cfg.Provider,
		PoolName:     a.cfg.Pool,
		AgentVersion: a.cfg.AgentVersion,
	}
	if m, err := a.source.Metrics(ctx); err == nil {
		req.Metrics = &m
	} else {
		a.log.DebugContext(ctx, "keepalive without metrics", "err", err)
	}
	answer, err := a.peers.PostJSON(ctx, rest.Request{Path: pathKeepalive, Final: forgotten}, req)
	if err != nil {
		return err
	}
	if forgotten(answer) {
		a.failed(errForgotten)
		return errForgotten
	}
	if a.tokens.lapsed() { // the enrollment token cannot send keepalives
		a.failed(errRevoked)
		return errRevoked
	}
	if err := answer.Err(); err != nil {
		return err
	}
	a.tokens.accepted()
	a.succeeded(true, readTiming(answer.Body))
	return nil
}

// succeeded records a successful request.
func (a *Agent) succeeded(ready bool, t timing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.status.Progress, a.status.Interval = now, t.interval(a.cfg.Interval)
	a.status.Failures, a.status.Err, a.status.Ready = 0, nil, ready
	if ready {
		a.status.LastKeepalive = now
	}
}

func (a *Agent) failed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status.Progress = time.Now()
	a.status.Failures++
	a.status.Err, a.status.Ready = err, false
}

// pause records a failure and waits before the next try.
func (a *Agent) pause(ctx context.Context, what string, failures int, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a.failed(err)
	wait := max(a.backoff.Delay(failures), rest.RetryAfter(err))
	level := slog.LevelWarn
	if s := rest.Status(err); s == http.StatusUnauthorized || s == http.StatusForbidden {
		level = slog.LevelError // it needs an operator
	}
	a.log.Log(ctx, level, what+" failed, will retry",
		"failures", failures, "retry_in", wait.Round(time.Millisecond), "err", err)
	return rest.Sleep(ctx, wait)
}

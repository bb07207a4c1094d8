package machine

import (
	"context"
	"encoding/json"
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

// errForgotten is an answer that says that the server does not know the machine.
var errForgotten = errors.New("the server does not know this machine (any more)")

// errRevoked means that the machine enrolls again.
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

// Status is how an agent is doing.
type Status struct {
	// Ready means that the server counts the machine as ready: the last keepalive was taken.
	Ready bool
	// LastKeepalive is when one was last taken. Zero: never.
	LastKeepalive time.Time
	// Interval is the time to the next keepalive after one that was taken.
	Interval time.Duration
	// Failures counts the requests that failed since one was taken, Err is the last of their
	// errors.
	Failures int
	Err      error
	// Progress is when the agent last did something. It always does within a minute, or within
	// Interval and the timeouts of all servers.
	Progress time.Time
}

// New checks the configuration. Nothing is sent yet.
func New(cfg Config, source Source) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	none := cfg.Token == "" && cfg.TokenFile == ""
	if none { // nothing to enroll with
		cfg.OwnTokenFile = ""
	}
	tokens, err := newCredentials(cfg.OwnTokenFile, cfg.MachineID, cfg.tokens())
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

// Status reports how the agent is doing.
func (a *Agent) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// Run registers the machine and keeps it alive until the context ends, and returns nil then. The
// document knows no farewell: the server sees the machine go when its TTL is over.
func (a *Agent) Run(ctx context.Context) error {
	defer a.peers.Close()
	for forgot := 0; ; forgot++ {
		// A server that takes a registration and denies it right after is not asked in a tight
		// loop.
		if forgot > 1 && rest.Sleep(ctx, a.backoff.Delay(forgot-1)) != nil {
			return nil
		}
		specs, err := a.register(ctx)
		if err != nil {
			return nil
		}
		taken, err := a.keepAlive(ctx, specs)
		if ctx.Err() != nil {
			return nil
		}
		if taken {
			forgot = 0
		}
		a.log.WarnContext(ctx, "registering again", "reason", err)
	}
}

// register tries until it is done, or the context ends.
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
	answer, err := a.post(ctx, pathRegister, specs.request(a.cfg, token, sum))
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
	a.took(false, readTiming(answer.Body))
	return nil
}

// keepAlive sends keepalives until the machine has to register again, and says why; taken tells
// whether any was taken. It also returns when the context ends.
func (a *Agent) keepAlive(ctx context.Context, registered Specs) (taken bool, why error) {
	looked := time.Now()
	for failures := 0; ; {
		switch err := a.tryKeepalive(ctx); {
		case err == nil:
			if !taken || failures > 0 {
				a.log.InfoContext(ctx, "ready", "interval", a.Status().Interval)
			}
			taken, failures = true, 0
			if rest.Sleep(ctx, rest.Early(a.Status().Interval)) != nil {
				return taken, ctx.Err()
			}
		case errors.Is(err, errForgotten), errors.Is(err, errRevoked):
			return taken, err
		default:
			failures++
			if err := a.pause(ctx, "keepalive", failures, err); err != nil {
				return taken, err
			}
		}
		if time.Since(looked) >= specsEvery {
			looked = time.Now()
			if now, err := a.source.Specs(ctx); err == nil && now != registered {
				return taken, errors.New("the machine has changed")
			}
		}
	}
}

func (a *Agent) tryKeepalive(ctx context.Context) error {
	req := keepaliveRequest{
		MachineID: a.cfg.MachineID, ProviderName: a.cfg.Provider, PoolName: a.cfg.Pool, AgentVersion: a.cfg.AgentVersion,
	}
	if m, err := a.source.Metrics(ctx); err == nil {
		req.Metrics = &m
	} else {
		a.log.DebugContext(ctx, "keepalive without metrics", "err", err)
	}
	answer, err := a.post(ctx, pathKeepalive, req)
	if err != nil {
		return err
	}
	if forgotten(answer) {
		a.failed(errForgotten)
		return errForgotten
	}
	if a.tokens.lapsed() { // the token to enroll with is of no use for keepalives
		a.failed(errRevoked)
		return errRevoked
	}
	if err := answer.Err(); err != nil {
		return err
	}
	a.tokens.taken()
	a.took(true, readTiming(answer.Body))
	return nil
}

func (a *Agent) post(ctx context.Context, path string, body any) (*rest.Answer, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	return a.peers.Post(ctx, rest.Request{Path: path, Body: b, JSON: true, Final: forgotten})
}

// took notes that a server took a request.
func (a *Agent) took(ready bool, t timing) {
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

// pause tells of a failure and waits before the next try.
func (a *Agent) pause(ctx context.Context, what string, failures int, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a.failed(err)
	wait := max(a.backoff.Delay(failures), rest.RetryAfter(err))
	level := slog.LevelWarn
	if s := rest.Status(err); s == http.StatusUnauthorized || s == http.StatusForbidden {
		level = slog.LevelError // it will not pass by itself
	}
	a.log.Log(ctx, level, what+" failed, trying on", "failures", failures, "retry_in", wait.Round(time.Millisecond), "err", err)
	return rest.Sleep(ctx, wait)
}

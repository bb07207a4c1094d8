package poolreg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

const (
	// lostAfter is the number of failed heartbeats in a row after which the orchestrator
	// may mark the pool as unavailable (POOLREG-18021).
	lostAfter = 3
	// Bounds of the interval that an orchestrator can request.
	minInterval = 500 * time.Millisecond
	maxInterval = 5 * time.Minute
)

// Reasons why heartbeats end.
var (
	errForgotten = errors.New("the orchestrator does not know the pool (any more)")
	errLost      = errors.New("the connection is lost")
	errChanged   = errors.New("the GPUs have changed")
)

// orchestrator is the registration with the orchestrator.
type orchestrator struct {
	*link
	pool   Pool
	source Source
}

func newOrchestrator(cfg Config, source Source) (*orchestrator, error) {
	l, err := newLink(cfg, *cfg.Orchestrator, "", cfg.HeartbeatInterval, cfg.Logger.With("pool_id", cfg.Pool.ID))
	if err != nil {
		return nil, err
	}
	return &orchestrator{link: l, pool: cfg.Pool, source: source}, nil
}

func (o *orchestrator) run(ctx context.Context) {
	defer o.peers.Close()
	sent := false // the orchestrator may have accepted a registration
	rest.Repeat(ctx, o.backoff, func(ctx context.Context) bool {
		var inventory []registerGPU
		err := o.retry(ctx, func(ctx context.Context) (err error) {
			inventory, err = o.register(ctx)
			sent = sent || ctx.Err() != nil
			return err
		})
		if err != nil {
			return false // the context has ended
		}
		sent = true
		worked, why := o.heartbeats(ctx, inventory)
		if ctx.Err() == nil {
			o.log.WarnContext(ctx, "registering again with the full state", "reason", why)
		}
		return worked
	})
	if sent {
		o.deregister(context.WithoutCancel(ctx))
	}
	o.gone()
}

// register registers once and returns the GPUs that it sent.
func (o *orchestrator) register(ctx context.Context) ([]registerGPU, error) {
	state, err := o.source.State(ctx)
	if err != nil {
		return nil, fmt.Errorf("collect the state: %w", err)
	}
	inventory := state.inventory()
	answer, err := o.post(ctx, "/v2/pools/register", registerRequest{
		PoolID:   o.pool.ID,
		Endpoint: o.pool.Endpoint,
		NodeID:   o.pool.NodeID,
		GPUs:     inventory,
		Region:   o.pool.Region,
		Version:  o.pool.Version,
	})
	if err != nil {
		return nil, err
	}
	o.succeeded(askedInterval(answer.Body, "heartbeat_interval_ms"))
	o.log.InfoContext(ctx, "registered", "gpus", len(inventory), "heartbeat_interval", o.get().Interval)
	return inventory, nil
}

// heartbeats sends heartbeats, the first one at once, until the pool must register again or
// the context ends, and returns why. It reports in worked whether any heartbeat succeeded.
func (o *orchestrator) heartbeats(ctx context.Context, inventory []registerGPU) (worked bool, why error) {
	for failures := 0; ; {
		err := o.heartbeat(ctx, inventory)
		wait := rest.Early(o.get().Interval)
		switch {
		case ctx.Err() != nil:
			return worked, ctx.Err()
		case err == nil:
			worked, failures = true, 0
		case errors.Is(err, errForgotten):
			o.failed(err, true)
			return worked, err
		case errors.Is(err, errChanged):
			return worked, err
		default:
			failures++
			o.failed(err, failures >= lostAfter)
			if failures >= lostAfter {
				o.log.ErrorContext(ctx, "connection lost, working offline", "failures", failures, "err", err)
				return worked, errLost
			}
			// Retry before the next one is due: three missing heartbeats are too many.
			wait = min(wait, o.wait(failures, err))
			o.log.WarnContext(ctx, "heartbeat failed, will retry",
				"failures", failures, "retry_in", wait.Round(time.Millisecond), "err", err)
		}
		if err := rest.Sleep(ctx, wait); err != nil {
			return worked, err
		}
	}
}

func (o *orchestrator) heartbeat(ctx context.Context, inventory []registerGPU) error {
	state, err := o.source.State(ctx)
	if err != nil {
		return fmt.Errorf("collect the state: %w", err)
	}
	if !slices.EqualFunc(state.inventory(), inventory, registerGPU.equal) {
		return errChanged
	}
	began := time.Now()
	answer, err := o.post(ctx, "/v2/pools/"+url.PathEscape(o.pool.ID)+"/heartbeat", state.heartbeat(o.pool.ID))
	if ctx.Err() == nil {
		o.metrics.heartbeat(time.Since(began), err)
	}
	if err != nil {
		return err
	}
	o.succeeded(askedInterval(answer.Body, "next_heartbeat_ms"))
	return nil
}

// post sends a request to the server. It returns an error unless the request succeeded.
func (l *link) post(ctx context.Context, path string, body any) (*rest.Answer, error) {
	answer, err := l.peers.PostJSON(ctx, rest.Request{Path: path, Final: forgotten}, body)
	if err != nil {
		return nil, err
	}
	if forgotten(answer) {
		return nil, errForgotten
	}
	return answer, answer.Err()
}

// forgotten reports whether the pool must register again.
func forgotten(a *rest.Answer) bool {
	var body struct {
		Error string `json:"error"`
	}
	return a.Status == http.StatusNotFound && json.Unmarshal(a.Body, &body) == nil && body.Error == "pool_not_found"
}

// askedInterval returns the interval that a response requests, in milliseconds, or zero.
func askedInterval(body []byte, member string) time.Duration {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return 0
	}
	asked := rest.Duration(members[member], time.Millisecond)
	if asked == 0 {
		return 0
	}
	return min(max(asked, minInterval), maxInterval)
}

// deregister deregisters the pool. If that does not succeed in time, Run ends anyway.
func (o *orchestrator) deregister(ctx context.Context) {
	path := "/v2/pools/" + url.PathEscape(o.pool.ID) + "/deregister"
	var err error
	final := rest.Farewell(ctx, func(ctx context.Context) bool {
		if _, err = o.post(ctx, path, deregisterRequest{PoolID: o.pool.ID, Reason: "graceful_shutdown"}); err == nil {
			return true
		}
		status := rest.Status(err)
		refused := status >= 400 && status < 500 && status != http.StatusTooManyRequests
		return refused || errors.Is(err, errForgotten)
	})
	switch {
	case !final:
		o.log.WarnContext(ctx, "deregistration failed, giving up", "err", err)
	case err == nil, errors.Is(err, errForgotten):
		o.log.InfoContext(ctx, "deregistered")
	default:
		o.log.WarnContext(ctx, "orchestrator refused the deregistration", "err", err)
	}
}

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
	// lostAfter is how many heartbeats in a row may fail: after as many, the orchestrator may mark
	// the pool as unavailable (POOLREG-18021).
	lostAfter = 3
	// farewell is how long deregistering takes at most (POOLREG-18051).
	farewell = 5 * time.Second
	// The shortest and the longest interval that an orchestrator can ask for.
	minInterval = 500 * time.Millisecond
	maxInterval = 5 * time.Minute
)

// Why heartbeats end.
var (
	errForgotten = errors.New("the orchestrator does not know the pool (any more)")
	errLost      = errors.New("the connection is lost")
	errChanged   = errors.New("the GPUs have changed")
)

// orchestrator is the registration there.
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
	sent := false // a registration that the orchestrator may have taken
	for lost := 0; ctx.Err() == nil; lost++ {
		// One that takes a registration and denies it right after is not asked in a tight loop.
		if lost > 1 && rest.Sleep(ctx, o.backoff.Delay(lost-1)) != nil {
			break
		}
		var inventory []registerGPU
		err := o.retry(ctx, func(ctx context.Context) (err error) {
			inventory, err = o.register(ctx)
			sent = sent || ctx.Err() != nil
			return err
		})
		if err != nil {
			break
		}
		sent = true
		taken, why := o.heartbeats(ctx, inventory)
		if ctx.Err() != nil {
			break
		}
		if taken {
			lost = 0
		}
		o.log.WarnContext(ctx, "registering again with the full state", "reason", why)
	}
	if sent {
		o.deregister(context.WithoutCancel(ctx))
	}
	o.gone()
}

// register registers once. It returns what it has told of the GPUs.
func (o *orchestrator) register(ctx context.Context) ([]registerGPU, error) {
	state, err := o.source.State(ctx)
	if err != nil {
		return nil, fmt.Errorf("collect the state: %w", err)
	}
	inventory := state.inventory()
	answer, err := o.post(ctx, "/v2/pools/register", registerRequest{
		PoolID: o.pool.ID, Endpoint: o.pool.Endpoint, NodeID: o.pool.NodeID, GPUs: inventory, Region: o.pool.Region, Version: o.pool.Version,
	})
	if err != nil {
		return nil, err
	}
	o.took(askedInterval(answer.Body, "heartbeat_interval_ms"))
	o.log.InfoContext(ctx, "registered", "gpus", len(inventory), "heartbeat_interval", o.get().Interval)
	return inventory, nil
}

// heartbeats sends heartbeats, the first at once, until the pool has to register again, and says
// why; taken tells whether any was taken. It also returns when the context ends.
func (o *orchestrator) heartbeats(ctx context.Context, inventory []registerGPU) (taken bool, why error) {
	for failures := 0; ; {
		err := o.heartbeat(ctx, inventory)
		wait := rest.Early(o.get().Interval)
		switch {
		case ctx.Err() != nil:
			return taken, ctx.Err()
		case err == nil:
			taken, failures = true, 0
		case errors.Is(err, errForgotten):
			o.failed(err, true)
			return taken, err
		case errors.Is(err, errChanged):
			return taken, err
		default:
			failures++
			o.failed(err, failures >= lostAfter)
			if failures >= lostAfter {
				o.log.ErrorContext(ctx, "connection lost, working offline", "failures", failures, "err", err)
				return taken, errLost
			}
			// Sooner than the next one is due: three that are missing are one too many.
			wait = min(wait, o.wait(failures, err))
			o.log.WarnContext(ctx, "heartbeat failed, trying on", "failures", failures, "retry_in", wait.Round(time.Millisecond), "err", err)
		}
		if err := rest.Sleep(ctx, wait); err != nil {
			return taken, err
		}
	}
}

func (o *orchestrator) heartbeat(ctx context.Context, inventory []registerGPU) error {
	state, err := o.source.State(ctx)
	if err != nil {
		return fmt.Errorf("collect the state: %w", err)
	}
	if !slices.Equal(state.inventory(), inventory) {
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
	o.took(askedInterval(answer.Body, "next_heartbeat_ms"))
	return nil
}

// post asks the orchestrator. Every answer but a success is an error.
func (l *link) post(ctx context.Context, path string, body any) (*rest.Answer, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	answer, err := l.peers.Post(ctx, rest.Request{Path: path, Body: b, JSON: true, Final: forgotten})
	if err != nil {
		return nil, err
	}
	if forgotten(answer) {
		return nil, errForgotten
	}
	return answer, answer.Err()
}

// forgotten says of an answer that the pool is to register again.
func forgotten(a *rest.Answer) bool {
	var body struct {
		Error string `json:"error"`
	}
	return a.Status == http.StatusNotFound && json.Unmarshal(a.Body, &body) == nil && body.Error == "pool_not_found"
}

// askedInterval reads the interval that an answer asks for, in milliseconds; zero if it asks for
// none.
func askedInterval(body []byte, member string) time.Duration {
	var members map[string]json.RawMessage
	var ms json.Number // takes strings too
	if json.Unmarshal(body, &members) != nil || json.Unmarshal(members[member], &ms) != nil {
		return 0
	}
	f, err := ms.Float64()
	if err != nil || !(f > 0) {
		return 0
	}
	return time.Duration(min(max(f*float64(time.Millisecond), float64(minInterval)), float64(maxInterval)))
}

// deregister says farewell. A pool manager that cannot do so in time goes all the same.
func (o *orchestrator) deregister(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, farewell, fmt.Errorf("not done within %s", farewell))
	defer cancel()
	again := rest.Backoff{Base: 100 * time.Millisecond, Max: time.Second}
	for try := 1; ; try++ {
		_, err := o.post(ctx, "/v2/pools/"+url.PathEscape(o.pool.ID)+"/deregister", deregisterRequest{PoolID: o.pool.ID, Reason: "graceful_shutdown"})
		switch status := rest.Status(err); {
		case err == nil, errors.Is(err, errForgotten):
			o.log.InfoContext(ctx, "deregistered")
			return
		case status >= 400 && status < 500 && status != http.StatusTooManyRequests:
			o.log.WarnContext(ctx, "the orchestrator refused the farewell", "err", err)
			return
		}
		if rest.Sleep(ctx, again.Delay(try)) != nil {
			o.log.WarnContext(ctx, "leaving without a farewell", "err", err)
			return
		}
	}
}

package sshexec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// target returns the address and the secret of a machine's host.
func (p *Provider) target(op string, m providers.Machine) (target, error) {
	address, err := parseEndpoint(m.GetSpec().GetSshEndpoint())
	if err != nil {
		return target{}, providers.Errorf(providers.Unsupported, op, "machine %s: %w", m.GetMachineId(), err)
	}
	to := target{host: m.GetMachineId(), address: address, ref: m.GetSpec().GetSshCredentialsRef()}
	if to.ref == "" {
		to.ref, to.common = p.cfg.CredentialsRef, p.cfg.CredentialsRef != ""
	}
	return to, nil
}

// read performs a query that changes nothing. If the connection breaks before the answer, it
// repeats the query once over a new connection.
func read[T any](
	ctx context.Context,
	p *Provider,
	op string,
	m providers.Machine,
	do func(context.Context, *shell) (T, error),
) (T, error) {
	v, err := withShell(ctx, p, op, m, time.Duration(p.cfg.CallTimeout), do)
	if _, ok := errors.AsType[*broken](err); ok && ctx.Err() == nil {
		v, err = withShell(ctx, p, op, m, time.Duration(p.cfg.CallTimeout), do)
	}
	return v, err
}

// effect performs an effect on a host, in time or not at all. It calls do with a shell that has
// just answered. most is the time that the call may take in addition to CallTimeout.
func (p *Provider) effect(
	ctx context.Context,
	op string,
	m providers.Machine,
	most time.Duration,
	do func(context.Context, *shell) error,
) error {
	if err := ctx.Err(); err != nil {
		return classify(op, err, providers.Timeout)
	}
	if err := providers.InTime(ctx, op); err != nil {
		return err
	}
	most += time.Duration(p.cfg.CallTimeout)
	_, err := withShell(ctx, p, op, m, most, func(ctx context.Context, sh *shell) (struct{}, error) {
		return struct{}{}, do(ctx, sh)
	})
	return err
}

// withShell calls do with a shell on the machine's host, for at most the given time. If ctx ends
// first, withShell abandons the shell and ignores the result of do, which ends once the connection
// is closed.
func withShell[T any](
	ctx context.Context,
	p *Provider,
	op string,
	m providers.Machine,
	most time.Duration,
	do func(context.Context, *shell) (T, error),
) (T, error) {
	var none T
	to, err := p.target(op, m)
	if err != nil {
		return none, err
	}
	ctx, stop := context.WithTimeout(ctx, most)
	defer stop()
	for again := false; ; again = true {
		l, fresh, err := p.link(ctx, to, p.cfg.Jump)
		if err != nil {
			return none, err
		}
		v, err := use(ctx, p, l, do)
		if _, ok := errors.AsType[*broken](err); ok {
			l.retire()
		}
		l.release()
		if _, ok := errors.AsType[*staleError](err); ok && !fresh && !again {
			continue // a kept connection has died since the last call: nothing was sent
		}
		return v, p.translate(ctx, op, err)
	}
}

// staleError means that no shell could be opened: nothing was sent.
type staleError struct{ error }

func (s *staleError) Unwrap() error { return s.error }

// use calls do with a shell of the link.
func use[T any](
	ctx context.Context, p *Provider, l *link, do func(context.Context, *shell) (T, error),
) (v T, err error) {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return v, ctx.Err()
	}
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	p.watching.Go(func() {
		defer func() { <-l.slots }()
		sh, err := l.shell(p.cfg)
		if err != nil {
			done <- result{err: &staleError{err}}
			return
		}
		var r result
		r.v, r.err = do(ctx, sh)
		l.giveBack(sh, r.err)
		done <- r
	})
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		l.retire() // the host or its connection hangs: the next call opens a new one
		return v, ctx.Err()
	}
}

// shell returns a shell that has just answered.
func (l *link) shell(cfg Config) (*shell, error) {
	for {
		l.mu.Lock()
		var sh *shell
		if n := len(l.idle); n > 0 {
			sh, l.idle = l.idle[n-1], l.idle[:n-1]
		}
		l.mu.Unlock()
		if sh == nil {
			sh, err := l.open(cfg)
			if err == nil {
				sh.linked = l.born
			}
			return sh, err
		}
		if sh.ping() == nil {
			return sh, nil
		}
		_ = sh.session.Close()
	}
}

// giveBack keeps a shell for the next call, unless it may be in the middle of a request.
func (l *link) giveBack(sh *shell, err error) {
	var late lateError
	if err != nil && !errors.As(err, &late) && providers.ClassOf(err) != providers.Late {
		_ = sh.session.Close()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = append(l.idle, sh)
}

// translate classifies an error.
func (p *Provider) translate(ctx context.Context, op string, err error) error {
	var he *hostError
	var b *broken
	var late lateError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return classify(op, ctx.Err(), providers.Timeout)
	case errors.As(err, &he):
		return providers.Errorf(he.class, op, "%w", err)
	case errors.As(err, &late):
		return providers.Errorf(providers.Late, op, "%w; another leader may have acted", err)
	case errors.As(err, &b):
		return providers.Errorf(providers.Transient, op, "connection lost: %w", err)
	}
	return classify(op, fmt.Errorf("query the host: %w", err), providers.Transient)
}

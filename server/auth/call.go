package auth

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Enter authenticates a call on the peer where it arrives, and counts it against the rate limit of
// the caller. It returns a context with the caller, for Authorize on the peer that serves the call.
// Calls that this process makes itself, for the HTTP APIs, already have a caller.
func (g *Gate) Enter(ctx context.Context, method string) (context.Context, error) {
	rule, refusal := g.rule(method)
	if refusal != nil {
		g.metrics.refused.WithLabelValues(refusal.Reason).Inc()
		return nil, refusal
	}
	if CallerFrom(ctx) != nil {
		return ctx, nil
	}
	p := g.fromGRPC(ctx, rule.name)
	if rule.Public {
		switch { // already counted by the HTTP route, or by the peer where it arrived
		case p.source == "":
			return ctx, nil
		case p.peer():
			if e := g.member(ctx, &p); e != nil {
				return nil, g.authFailed(&p, e)
			}
			return forwardedAddress(ctx), nil
		}
		if rule.OverHTTP && !g.cfg.Insecure {
			g.metrics.refused.WithLabelValues(ReasonOverHTTP).Inc()
			return nil, denied(ReasonOverHTTP,
				"%s is served over HTTP only: use its route (docs/netboot.md)", rule.name)
		}
		if e := g.allowPublic(&rule.Rule, p.source); e != nil {
			return nil, e
		}
		return ctx, nil
	}
	c, err := g.admit(ctx, &p, rule.read)
	if err != nil {
		return nil, err
	}
	if !g.cfg.Insecure && !p.peer() {
		ctx = stripped(ctx, len(p.forwarded) > 0)
	}
	return NewContext(ctx, c), nil
}

// admit identifies a caller and counts the call.
func (g *Gate) admit(ctx context.Context, p *presented, read bool) (*Caller, error) {
	c, err := g.identify(ctx, p)
	if err = g.undecided(err); err != nil {
		return nil, g.authFailed(p, err)
	}
	if c.Peer != g.cfg.PeerID && p.peer() {
		return c, nil // already counted by the peer where it arrived
	}
	if e := g.limits.allow(c.Identity); e != nil {
		g.metrics.refused.WithLabelValues(e.Reason).Inc()
		if !read {
			g.denials.limited(c, e)
		}
		return nil, e
	}
	return c, nil
}

// authFailed counts and records a failed authentication, and returns the error for the
// caller.
func (g *Gate) authFailed(p *presented, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	g.metrics.refused.WithLabelValues(e.Reason).Inc()
	if p.page && e.Reason == ReasonNoCredentials {
		return e // nobody has tried to sign in yet
	}
	if tooMany := g.limits.failed(p.source); tooMany != nil {
		e = tooMany
	}
	g.denials.failed(p, g.cfg.PeerID, e)
	return e
}

// Authorize returns an error if the caller may not call a method, by its full name, with this
// request, on the peer that serves the call. Req is nil if the request has not been read yet. A
// refused change is recorded before its caller gets the answer.
func (g *Gate) Authorize(ctx context.Context, method string, req proto.Message) error {
	rule, refusal := g.rule(method)
	if refusal == nil && rule.Public {
		return nil
	}
	c := CallerFrom(ctx)
	if c == nil { // Enter did not run
		return unauthenticated(ReasonNoCredentials, "no credentials: the call was not authenticated")
	}
	if refusal == nil {
		// The state answers the second delivery of a command with the outcome of the first, and
		// looks at no credentials then. That is enough: this check comes before each delivery, so
		// that the answer is repeated only to a caller whose credentials are still good.
		_, refusal = g.recheck(c, c.seen)
	}
	if refusal == nil {
		refusal = rule.allows(c.Identity, req, rule.name)
	}
	if refusal == nil {
		return nil
	}
	g.metrics.refused.WithLabelValues(refusal.Reason).Inc()
	if !rule.read {
		resource, requestID := resourceOf(req)
		g.denials.refused(ctx, c, resource, requestID, refusal)
	}
	return refusal
}

// OpenStream counts a stream of the caller of Enter, on the peer where it arrived. The function
// ends it.
func (g *Gate) OpenStream(ctx context.Context) (end func(), err error) {
	c := CallerFrom(ctx)
	if c == nil || c.Peer != g.cfg.PeerID {
		return func() {}, nil
	}
	end, refusal := g.limits.open(c.Identity)
	if refusal != nil {
		g.metrics.refused.WithLabelValues(refusal.Reason).Inc()
		return nil, refusal
	}
	return end, nil
}

// AuthorizeStream is Authorize for a stream. The returned stream checks the caller's token again at
// each message, so none passes after the token has ended. See Until for streams without messages.
func (g *Gate) AuthorizeStream(ss grpc.ServerStream, method string) (grpc.ServerStream, error) {
	if err := g.Authorize(ss.Context(), method, nil); err != nil {
		return nil, err
	}
	if c := CallerFrom(ss.Context()); c.ends() {
		return &tokenStream{ServerStream: ss, g: g, c: c, seen: c.seen}, nil
	}
	return ss, nil
}

type tokenStream struct {
	grpc.ServerStream
	g *Gate
	c *Caller

	mu   sync.Mutex // one goroutine may send while another one receives
	seen seen
}

// SendMsg implements grpc.ServerStream.
func (s *tokenStream) SendMsg(m any) error {
	if err := s.still(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// RecvMsg implements grpc.ServerStream.
func (s *tokenStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.still() // after the message, which may take hours to arrive
}

func (s *tokenStream) still() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err *Error
	if s.seen, err = s.g.recheck(s.c, s.seen); err != nil {
		return err
	}
	return nil
}

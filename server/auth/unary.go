package auth

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// EdgeUnary authenticates calls on the peer where they arrive. It runs before the
// cluster's interceptor. Unary authorizes them.
func (g *Gate) EdgeUnary(
	ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	ctx, err := g.enter(ctx, call.FullMethod)
	if err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// EdgeStream is EdgeUnary for streams.
func (g *Gate) EdgeStream(srv any, ss grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx, err := g.enter(ss.Context(), call.FullMethod)
	if err != nil {
		return err
	}
	return next(srv, &edgeStream{ServerStream: ss, ctx: ctx})
}

type edgeStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *edgeStream) Context() context.Context { return s.ctx }

// enter returns a context with the authenticated caller, and counts the call against the
// caller's rate limit. Calls that this process makes itself, for the HTTP APIs, already
// have a caller.
func (g *Gate) enter(ctx context.Context, method string) (context.Context, error) {
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
	if err != nil {
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
	e, ok := isRefusal(err)
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

// Unary authorizes calls on the peer that serves them. It runs after the cluster's
// interceptor. A refused change is recorded before its caller gets the answer.
func (g *Gate) Unary(ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	m, _ := req.(proto.Message)
	if err := g.Authorize(ctx, call.FullMethod, m); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// Stream is Unary for streams. It checks the token again at each message, so a stream
// ends when its token is revoked.
func (g *Gate) Stream(srv any, ss grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := g.Authorize(ss.Context(), call.FullMethod, nil); err != nil {
		return err
	}
	if c := CallerFrom(ss.Context()); c != nil && c.Identity.GetTokenId() != "" {
		ss = &tokenStream{ServerStream: ss, g: g, id: c.Identity, seen: c.seen}
	}
	return next(srv, ss)
}

type tokenStream struct {
	grpc.ServerStream
	g  *Gate
	id *holdfastv1.Identity

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
	if s.seen, err = s.g.recheck(s.id, s.seen); err != nil {
		return err
	}
	return nil
}

// Authorize returns an error if the caller may not call a method, by its full name, with
// this request. Req is nil if the request has not been read yet. Code that serves a call
// without Unary must call it.
func (g *Gate) Authorize(ctx context.Context, method string, req proto.Message) error {
	rule, refusal := g.rule(method)
	if refusal == nil && rule.Public {
		return nil
	}
	c := CallerFrom(ctx)
	if c == nil { // EdgeUnary did not run
		return unauthenticated(ReasonNoCredentials, "no credentials: the call was not authenticated")
	}
	if refusal == nil {
		_, refusal = g.recheck(c.Identity, c.seen)
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

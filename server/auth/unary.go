package auth

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// EdgeUnary authenticates calls where they arrive: it stands before the cluster's interceptor. What
// a caller may do is for Unary to say.
func (g *Gate) EdgeUnary(ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
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

// enter returns the context of a call whose caller is known, and counts it against the caller's
// limit. Calls that this process makes of itself, for the HTTP APIs, have a caller already.
func (g *Gate) enter(ctx context.Context, method string) (context.Context, error) {
	rule, refusal := g.rule(method)
	if refusal != nil {
		g.metrics.refused.WithLabelValues(refusal.Reason).Inc()
		return nil, refusal
	}
	if CallerFrom(ctx) != nil {
		return ctx, nil
	}
	p, md := g.fromGRPC(ctx, rule.name)
	if rule.Public {
		switch { // counted by the HTTP route, or by the peer that took the call
		case p.source == "":
			return ctx, nil
		case p.peer():
			return forwardedAddress(ctx, md), nil
		}
		if rule.OverHTTP && !g.cfg.Insecure {
			g.metrics.refused.WithLabelValues(ReasonOverHTTP).Inc()
			return nil, denied(ReasonOverHTTP, "%s is served over HTTP only: use its route (docs/netboot.md)", rule.name)
		}
		if e := g.mayAsk(&rule.Rule, p.source); e != nil {
			return nil, e
		}
		return ctx, nil
	}
	c, err := g.admit(ctx, &p, rule.read)
	if err != nil {
		return nil, err
	}
	if !g.cfg.Insecure && !p.peer() {
		ctx = stripped(ctx, md)
	}
	return NewContext(ctx, c), nil
}

// admit identifies a caller and counts the call.
func (g *Gate) admit(ctx context.Context, p *presented, read bool) (*Caller, error) {
	c, err := g.identify(ctx, p)
	if err != nil {
		return nil, g.stranger(p, err)
	}
	if c.Peer != g.cfg.PeerID && p.peer() {
		return c, nil // the peer that took the call has counted it
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

// stranger counts a failed authentication.
func (g *Gate) stranger(p *presented, err error) error {
	e, ok := isRefusal(err)
	if !ok {
		return err
	}
	g.metrics.refused.WithLabelValues(e.Reason).Inc()
	if tooMany := g.limits.failed(p.source); tooMany != nil {
		e = tooMany
	}
	g.denials.failed(p, g.cfg.PeerID, e)
	return e
}

// Unary authorizes calls where they are served: it stands behind the cluster's interceptor. A
// change that is refused is on record before its caller is answered.
func (g *Gate) Unary(ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	m, _ := req.(proto.Message)
	if err := g.Authorize(ctx, call.FullMethod, m); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// Stream is Unary for streams. It looks at the token again at each message: what was revoked shows
// nothing any more, and does nothing.
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
	return s.still() // after it has come: that may take hours
}

func (s *tokenStream) still() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err *Error
	if s.seen, err = s.g.still(s.id, s.seen); err != nil {
		return err
	}
	return nil
}

// Authorize reports whether the caller of a method, by its full name, may call it with this
// request; nil where it has not been read yet. What serves a call without Unary asks it.
func (g *Gate) Authorize(ctx context.Context, method string, req proto.Message) error {
	rule, refusal := g.rule(method)
	if refusal == nil && rule.Public {
		return nil
	}
	c := CallerFrom(ctx)
	if c == nil { // EdgeUnary was not asked
		return unauthenticated(ReasonNoCredentials, "nobody has said who makes this call")
	}
	if refusal == nil {
		_, refusal = g.still(c.Identity, c.seen)
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

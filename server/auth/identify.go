package auth

import (
	"context"
	"crypto/sha256"
	"net"
	"net/http"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// presented is the credentials and the origin of a call.
type presented struct {
	source    string
	cert      *peertls.Caller // nil without one
	certError *Error          // the refusal of the certificate
	bearer    []string
	forwarded []string
	method    string  // as in the audit trail
	page      bool    // a browser opens a page; without credentials it is sent to sign in
	cookie    *Cookie // that has the token, if any
}

// peer reports whether a call arrived over a connection of another peer of this cluster.
func (p *presented) peer() bool { return p.cert != nil && p.cert.Peer != "" }

// fromGRPC returns the credentials of a gRPC call. It does not copy the whole metadata, which
// would cost more than the rest.
func (g *Gate) fromGRPC(ctx context.Context, method string) presented {
	p := presented{
		bearer:    metadata.ValueFromIncomingContext(ctx, headerToken),
		forwarded: metadata.ValueFromIncomingContext(ctx, headerIdentity),
		method:    method,
	}
	if from, ok := peer.FromContext(ctx); ok {
		p.source = hostOf(from.Addr)
		if info, ok := from.AuthInfo.(credentials.TLSInfo); ok {
			p.cert, p.certError = g.certificateOf(&info.State)
		}
	}
	return p
}

// fromHTTP returns the credentials of a request. Headers with a client address are
// ignored, because any client can set them.
func (g *Gate) fromHTTP(r *http.Request, method string) presented {
	p := presented{source: sourceOf(r.RemoteAddr), bearer: r.Header.Values("Authorization"), method: method}
	p.cert, p.certError = g.certificateOf(r.TLS)
	return p
}

// Source returns the rate-limit key of a client's address: see sourceKey. Routes with
// limits of their own use it.
func Source(r *http.Request) string { return sourceKey(sourceOf(r.RemoteAddr)) }

// hostOf returns an address without its port.
func hostOf(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok { // without joining and splitting a text
		return tcp.AddrPort().Addr().Unmap().String()
	}
	return sourceOf(a.String())
}

// sourceOf returns an address without its port.
func sourceOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// identify returns the caller of a call. It returns an *Error if the caller is refused,
// or another error if the state could not be read.
//
// A peer's certificate may name another caller, for which it forwards the call. Otherwise
// a token has precedence over a certificate, because it was sent with this call. A bad
// token is refused even if the certificate is good.
func (g *Gate) identify(ctx context.Context, p *presented) (*Caller, error) {
	if g.cfg.Insecure {
		return g.anonymousCaller(p), nil
	}
	token, bad := parseBearer(p.bearer)
	switch {
	case p.certError != nil && token == "":
		return nil, p.certError
	case bad != nil:
		return nil, bad
	case p.peer() && len(p.forwarded) > 0:
		if err := g.member(ctx, p); err != nil {
			return nil, err
		}
		c, err := forwarded(p.forwarded, p.cert.Peer)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	c := &Caller{Source: p.source, Peer: g.cfg.PeerID, Method: p.method, gate: g}
	switch {
	case token != "" && isJWT(token):
		var err error
		var tokens string
		if c.Identity, c.until, tokens, err = g.accessToken(ctx, token, p.source); err == nil {
			g.sessionOf(c, p.cookie, tokens)
		}
		return c, err
	case token != "":
		err := g.bearer(ctx, token, c)
		if err == nil {
			g.sessionOf(c, p.cookie, "")
		}
		return c, err
	case p.cert == nil:
		return nil, unauthenticated(ReasonNoCredentials,
			"no credentials: send `Authorization: Bearer` and a token (`holdfast token create`), "+
				"or use a client certificate")
	}
	if c.Identity, bad = fromCertificate(p.cert); bad != nil {
		return nil, bad
	}
	return c, nil
}

// member returns the refusal of a peer's certificate whose peer is not a member of the cluster now.
func (g *Gate) member(ctx context.Context, p *presented) *Error {
	if g.cfg.Member == nil {
		return unauthenticated(ReasonNotMember, "peer %s forwards a call: this peer knows no others", p.cert.Peer)
	}
	if err := g.cfg.Member(ctx, p.cert); err != nil {
		return unauthenticated(ReasonNotMember, "peer %s may not forward calls: %s", p.cert.Peer, err)
	}
	return nil
}

// anonymousCaller returns the caller if authentication is off. Source, peer and method of
// a forwarded call are kept for the audit trail, but not its identity.
func (g *Gate) anonymousCaller(p *presented) *Caller {
	c := &Caller{Identity: anonymous(), Source: p.source, Peer: g.cfg.PeerID, Method: p.method}
	if len(p.forwarded) > 0 {
		if f, err := forwarded(p.forwarded, ""); err == nil {
			c.Source, c.Peer, c.Method = f.Source, f.Peer, f.Method
		}
	}
	return c
}

// bearer sets the identity of c to that of the token's bearer.
func (g *Gate) bearer(ctx context.Context, token string, c *Caller) error {
	hash, now := sha256.Sum256([]byte(token)), g.now()
	r := g.deps.Records()
	if k, ok := g.known.get(r.TokensMark(), hash, now); ok {
		c.Identity, c.seen = k.identity, k.seen
		return nil
	}
	t, ok := r.TokenByHash(hash[:])
	if !ok {
		// Another peer may have just created it.
		var err error
		if r, err = g.readFresh(ctx, hash[:], c.Source); err != nil {
			return err
		}
		if t, ok = r.TokenByHash(hash[:]); !ok {
			g.lookups.remember(hash[:])
			return errUnknownToken()
		}
	}
	if err := alive(t, now); err != nil {
		return err
	}
	c.Identity, c.seen = fromToken(t), sawToken(r, t)
	g.known.put(hash, knownCaller{c.Identity, c.seen})
	return nil
}

func errUnknownToken() *Error {
	return unauthenticated(ReasonTokenUnknown,
		"unknown token: is it of this cluster, and complete? An admin creates one with `holdfast token create`")
}

// readFresh returns a fresh state to look up credentials that the local state does not
// contain. It returns an error if they were not found recently, or if source sends too
// many such credentials.
func (g *Gate) readFresh(ctx context.Context, hash []byte, source string) (Records, error) {
	if g.lookups.seen(hash) {
		return nil, errUnknownToken()
	}
	if err := g.lookups.allow(source); err != nil {
		return nil, err
	}
	return g.deps.Fresh(ctx)
}

// recheck checks that the caller's token is still valid, on the peer that serves the
// call. A certificate cannot be revoked, and its connection ends with it. The returned seen is
// passed to the next check.
func (g *Gate) recheck(c *Caller, before seen) (seen, *Error) {
	now, err := g.stillGood(c, before)
	return now, g.judged(err)
}

func (g *Gate) stillGood(c *Caller, before seen) (seen, *Error) {
	id, now := c.Identity, g.now()
	if !c.until.IsZero() && !now.Before(c.until) {
		return before, unauthenticated(ReasonTokenExpired, "the access token expired at %s: get a new one", stamp(c.until))
	}
	if err := g.sessionGood(c); err != nil {
		return before, err
	}
	if id.GetTokenId() == "" {
		return before, nil
	}
	r := g.deps.Records()
	if before.in != nil && before.in == r.TokensMark() && before.lasts(now) {
		return before, nil
	}
	t, ok := r.Token(id.GetTokenId())
	if !ok {
		return seen{}, errUnknownToken()
	}
	return sawToken(r, t), alive(t, now)
}

func sawToken(r Records, t *holdfastv1.Token) seen {
	s := seen{in: r.TokensMark()}
	if t.GetExpiresAt() != nil {
		s.expires = t.GetExpiresAt().AsTime()
	}
	return s
}

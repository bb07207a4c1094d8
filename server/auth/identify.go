package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"net/http"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// presented is what came with a call.
type presented struct {
	source    string
	cert      *peertls.Caller // nil without one
	certError *Error          // of one that is not good
	bearer    []string
	forwarded []string
	method    string // as the audit trail names it
}

// peer reports whether a call came over a connection of another peer of this cluster.
func (p *presented) peer() bool { return p.cert != nil && p.cert.Peer != "" }

// fromGRPC returns what came with a gRPC call, and its metadata.
func (g *Gate) fromGRPC(ctx context.Context, method string) (presented, metadata.MD) {
	md, _ := metadata.FromIncomingContext(ctx)
	p := presented{bearer: md[headerToken], forwarded: md[headerIdentity], method: method}
	if from, ok := peer.FromContext(ctx); ok {
		p.source = sourceOf(from.Addr.String())
		if info, ok := from.AuthInfo.(credentials.TLSInfo); ok {
			p.cert, p.certError = g.certificateOf(&info.State)
		}
	}
	return p, md
}

// fromHTTP returns what came with a request. Headers that name an address of the client are not
// believed: anybody can set them.
func (g *Gate) fromHTTP(r *http.Request, method string) presented {
	p := presented{source: sourceOf(r.RemoteAddr), bearer: r.Header.Values("Authorization"), method: method}
	p.cert, p.certError = g.certificateOf(r.TLS)
	return p
}

// Source returns what counts as one address of a client: see sourceKey. Limits of a route of its
// own go by it.
func Source(r *http.Request) string { return sourceKey(sourceOf(r.RemoteAddr)) }

// sourceOf returns an address without its port.
func sourceOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// identify reports who makes a call. What it is refused for is an *Error, or the error of a read
// that could not be made.
//
// A peer's certificate speaks for whom it forwards. Else a token goes before a certificate: it was
// sent with this call. One that is bad is refused even beside a good certificate.
func (g *Gate) identify(ctx context.Context, p *presented) (*Caller, error) {
	if g.cfg.Insecure {
		return g.unknown(p), nil
	}
	token, bad := parseBearer(p.bearer)
	switch {
	case p.certError != nil && token == "":
		return nil, p.certError
	case bad != nil:
		return nil, bad
	case p.peer() && len(p.forwarded) > 0:
		c, err := forwarded(p.forwarded)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	c := &Caller{Source: p.source, Peer: g.cfg.PeerID, Method: p.method}
	return c, g.own(ctx, token, p, c)
}

// own finds out the identity at the other end itself.
func (g *Gate) own(ctx context.Context, token string, p *presented, c *Caller) (err error) {
	switch {
	case token != "" && isJWT(token):
		c.Identity, err = g.accessToken(ctx, token, p.source)
		return err
	case token != "":
		return g.bearer(ctx, token, c)
	case p.cert == nil:
		return unauthenticated(ReasonNoCredentials, "no credentials: send `Authorization: Bearer` and a token (`holdfast token create`), or use a client certificate")
	}
	id, refusal := fromCertificate(p.cert)
	if refusal != nil {
		return refusal
	}
	c.Identity = id
	return nil
}

// unknown is the caller where nobody is known. What peers forward is taken for the audit trail, but
// for the identity.
func (g *Gate) unknown(p *presented) *Caller {
	c := &Caller{Identity: anonymous(), Source: p.source, Peer: g.cfg.PeerID, Method: p.method}
	if len(p.forwarded) > 0 {
		if f, err := forwarded(p.forwarded); err == nil {
			c.Source, c.Peer, c.Method = f.Source, f.Peer, f.Method
		}
	}
	return c
}

// bearer reports who a token stands for.
func (g *Gate) bearer(ctx context.Context, token string, c *Caller) error {
	hash, now := sha256.Sum256([]byte(token)), g.now()
	r := g.deps.Records()
	if k, ok := g.known.get(r.TokensMark(), hash, now); ok {
		c.Identity, c.seen = k.identity, k.seen
		return nil
	}
	t, ok := r.TokenByHash(hash[:])
	if !ok {
		// It may have been made on another peer a moment ago.
		var err error
		if r, err = g.lookAgain(ctx, hash[:], c.Source); err != nil {
			return err
		}
		if t, ok = r.TokenByHash(hash[:]); !ok {
			g.second.remember(hash[:])
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
	return unauthenticated(ReasonTokenUnknown, "the token is not known: is it one of this cluster, and complete? An admin makes one with `holdfast token create`")
}

// lookAgain returns a fresh state for credentials that the local one does not know, if that is
// worth the work.
func (g *Gate) lookAgain(ctx context.Context, hash []byte, source string) (Records, error) {
	if g.second.seen(hash) {
		return nil, errUnknownToken()
	}
	if err := g.second.allow(source); err != nil {
		return nil, err
	}
	return g.deps.Fresh(ctx)
}

// still reports whether the token that a caller came with is good where the call is served, and at
// the time. Identities without one were judged at the edge for good: a certificate or an access
// token cannot be taken back. It gives what was seen, for the next time.
func (g *Gate) still(id *holdfastv1.Identity, before seen) (seen, *Error) {
	if id.GetTokenId() == "" {
		return before, nil
	}
	r, now := g.deps.Records(), g.now()
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

// isRefusal reports whether an error is the gate's word on the caller, not a failure to find out.
func isRefusal(err error) (*Error, bool) {
	e, ok := errors.AsType[*Error](err)
	return e, ok
}

package auth

import (
	"context"
	"slices"
	"strings"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Caller is who makes a call, and how it came here.
type Caller struct {
	Identity *holdfastv1.Identity
	Source   string // address of the caller, without the port
	Peer     string // id of the peer that took the call
	Method   string // as the audit trail names it: holdfast.v1.RunService/StartRun, or POST /api/v1/machine/register

	seen seen // of the token
}

// seen are the tokens (Records.TokensMark) among which one was good: as long as they are the same,
// there is nothing to look up.
type seen struct {
	in      any       // nil: none
	expires time.Time // zero: never
}

// lasts reports whether the token has not expired yet.
func (s *seen) lasts(now time.Time) bool { return s.expires.IsZero() || now.Before(s.expires) }

type callerKey struct{}

// NewContext returns a context for calls of that caller. Nothing that comes over the network can do
// so.
func NewContext(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the caller; nil if nobody has been authenticated, as on public routes.
func CallerFrom(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// From returns the identity of the caller; nil, which has no role, if nobody was authenticated.
func From(ctx context.Context) *holdfastv1.Identity {
	if c := CallerFrom(ctx); c != nil {
		return c.Identity
	}
	return nil
}

// The ways to say who one is: Identity.method.
const (
	MethodCertificate = "certificate"
	MethodToken       = "token"
	MethodOIDC        = "oidc"
	MethodInsecure    = "insecure"
)

// peerPrefix begins the principals of peers, and of nobody else.
const peerPrefix = "peer:"

func isPeer(id *holdfastv1.Identity) bool {
	return id.GetMethod() == MethodCertificate && strings.HasPrefix(id.GetPrincipal(), peerPrefix)
}

// InScope reports whether somebody may see what is in a pool: they are scoped to it, or to none at
// all. A machine's agent sees no pool.
func InScope(id *holdfastv1.Identity, pool string) bool {
	switch id.GetRole() {
	case holdfastv1.Role_AGENT:
		return false
	case holdfastv1.Role_POOL_AGENT, holdfastv1.Role_ENROLLER:
		return slices.Contains(id.GetPools(), pool)
	}
	return len(id.GetPools()) == 0 || slices.Contains(id.GetPools(), pool)
}

// Scoped reports whether somebody sees only some of what there is.
func Scoped(id *holdfastv1.Identity) bool {
	switch id.GetRole() {
	case holdfastv1.Role_AGENT, holdfastv1.Role_POOL_AGENT, holdfastv1.Role_ENROLLER:
		return true
	}
	return len(id.GetPools()) > 0
}

// anonymous is everybody where there is no authentication.
func anonymous() *holdfastv1.Identity {
	return &holdfastv1.Identity{Principal: "anonymous", Role: holdfastv1.Role_ADMIN, Method: MethodInsecure}
}

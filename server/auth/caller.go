package auth

import (
	"context"
	"slices"
	"strings"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Caller is the caller of an RPC or HTTP route, and the way the call arrived.
type Caller struct {
	Identity *holdfastv1.Identity
	Source   string // address of the caller, without the port
	Peer     string // id of the peer that received the call
	Method   string // as in the audit trail: holdfast.v1.RunService/StartRun, or POST /api/v1/machine/register

	seen  seen      // the last successful check of the token
	until time.Time // end of the access token that the call arrived with; zero: none
	gate  *Gate     // of the peer where the call arrived; nil for a forwarded call

	session *holdfastv1.Session // of a person, or nil
}

// seen remembers a successful check of a token. It holds until any token changes
// (Records.TokensMark) or this one expires; until then the token is not looked up again.
type seen struct {
	in      any       // Records.TokensMark at the check; nil if there was none
	expires time.Time // zero: never
}

// lasts reports whether the token has not yet expired.
func (s *seen) lasts(now time.Time) bool { return s.expires.IsZero() || now.Before(s.expires) }

type callerKey struct{}

// NewContext returns a context for calls of that caller. Only code of this process can
// set it: nothing that arrives over the network does.
func NewContext(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the caller, or nil if the call was not authenticated, as on public
// routes.
func CallerFrom(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// From returns the identity of the caller. If the call was not authenticated it is nil,
// which has no role.
func From(ctx context.Context) *holdfastv1.Identity {
	if c := CallerFrom(ctx); c != nil {
		return c.Identity
	}
	return nil
}

// Command returns a command on behalf of the caller. The FSM checks it against the
// caller's token and scope, and writes the audit event. Without a caller, as in tests of
// handlers, the command is anonymous and writes no audit event.
func Command(ctx context.Context) *internalv1.Command {
	c := &internalv1.Command{Principal: "anonymous"}
	from := CallerFrom(ctx)
	if from == nil {
		return c
	}
	id := from.Identity
	c.Principal = id.GetPrincipal()
	c.Origin = &internalv1.Origin{
		Source:    from.Source,
		Peer:      from.Peer,
		Method:    from.Method,
		TokenId:   id.GetTokenId(),
		Pools:     id.GetPools(),
		MachineId: id.GetMachineId(),
		Role:      id.GetRole(),
		SessionId: from.Session().GetSessionId(),
	}
	return c
}

// The ways to authenticate, as in Identity.method.
const (
	MethodCertificate = "certificate"
	MethodToken       = "token"
	MethodOIDC        = "oidc"
	MethodInsecure    = "insecure"
)

// peerPrefix begins the principals of peers. No other principal begins with it.
const peerPrefix = "peer:"

func isPeer(id *holdfastv1.Identity) bool {
	return id.GetMethod() == MethodCertificate && strings.HasPrefix(id.GetPrincipal(), peerPrefix)
}

// InScope reports whether an identity may see the contents of a pool: it is scoped to
// that pool, or not scoped at all. The agent of a machine sees no pool.
func InScope(id *holdfastv1.Identity, pool string) bool {
	switch id.GetRole() {
	case holdfastv1.Role_AGENT:
		return false
	case holdfastv1.Role_POOL_AGENT, holdfastv1.Role_ENROLLER:
		return slices.Contains(id.GetPools(), pool)
	}
	return len(id.GetPools()) == 0 || slices.Contains(id.GetPools(), pool)
}

// Scoped reports whether an identity sees only a part of the resources.
func Scoped(id *holdfastv1.Identity) bool {
	switch id.GetRole() {
	case holdfastv1.Role_AGENT, holdfastv1.Role_POOL_AGENT, holdfastv1.Role_ENROLLER:
		return true
	}
	return len(id.GetPools()) > 0
}

// anonymous is the identity of all callers if authentication is off.
func anonymous() *holdfastv1.Identity {
	return &holdfastv1.Identity{Principal: "anonymous", Role: holdfastv1.Role_ADMIN, Method: MethodInsecure}
}

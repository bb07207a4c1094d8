package auth

import (
	"context"
	"errors"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Client authenticates a client of the built-in issuer. The id and secret are those of a
// token with the role SERVICE, whose identity it returns. The address and method of the
// call are for the audit trail. Calls count toward the client's rate limit, failed ones
// toward that of the address. It returns an *Error if the client is refused, or another
// error if the state could not be read.
func (g *Gate) Client(ctx context.Context, id, secret, addr, method string) (*holdfastv1.Identity, error) {
	who, err := g.client(ctx, id, secret, sourceOf(addr))
	if err != nil {
		return nil, g.authFailed(&presented{source: sourceOf(addr), method: method}, err)
	}
	if e := g.limits.allow(who); e != nil {
		g.metrics.refused.WithLabelValues(e.Reason).Inc()
		return nil, e
	}
	return who, nil
}

func (g *Gate) client(ctx context.Context, id, secret, source string) (*holdfastv1.Identity, error) {
	token, bad := parseBearer([]string{secret})
	switch {
	case g.deps.Records == nil:
		return nil, errors.New("look up client: this peer has no records")
	case bad != nil || token != secret || isJWT(token):
		return nil, unauthenticated(ReasonBadCredentials,
			"the client secret is not a token (create one with `holdfast token create --role service`)")
	}
	c := &Caller{Source: source}
	if err := g.bearer(ctx, token, c); err != nil {
		return nil, err
	}
	who := c.Identity
	if who.GetTokenId() != id || who.GetRole() != holdfastv1.Role_SERVICE {
		return nil, unauthenticated(ReasonTokenUnknown,
			"client id and secret do not match, or the token's role is not service: send the token's id and its value")
	}
	return who, nil
}

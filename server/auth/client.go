package auth

import (
	"context"
	"errors"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Client reports who a client of the built-in issuer is: the principal of the token on record with
// that id and value, if it is one of role SERVICE. Addr is where it called from, and method what,
// for the audit trail. Calls count towards the client's rate, failed ones towards the address's.
// What it is refused for is an *Error, or the error of a read that could not be made.
func (g *Gate) Client(ctx context.Context, id, secret, addr, method string) (*holdfastv1.Identity, error) {
	who, err := g.client(ctx, id, secret, sourceOf(addr))
	if err != nil {
		return nil, g.stranger(&presented{source: sourceOf(addr), method: method}, err)
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
		return nil, errors.New("look up a client: this peer has no records")
	case bad != nil || token != secret || isJWT(token):
		return nil, unauthenticated(ReasonBadCredentials, "the client secret is not the value of a token (`holdfast token create --role service`)")
	}
	c := &Caller{Source: source}
	if err := g.bearer(ctx, token, c); err != nil {
		return nil, err
	}
	who := c.Identity
	if who.GetTokenId() != id || who.GetRole() != holdfastv1.Role_SERVICE {
		return nil, unauthenticated(ReasonTokenUnknown, "the client id is not that of the client's token, or the token has another role than service: send the token's id and its value")
	}
	return who, nil
}

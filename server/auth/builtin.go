package auth

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	lru "github.com/hashicorp/golang-lru/v2"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// AccessAudience is the audience of access tokens of the built-in issuer: "aud" must name
// it.
const AccessAudience = "holdfast"

// AccessClaims are the claims of an access token of the built-in issuer. The token is
// signed with the key of View.SigningKeys that its header names in "kid"; "exp" is
// required. It contains no rights: those are read from the record of the client's token,
// and end with that token.
type AccessClaims struct {
	jwt.Claims
	TokenID string `json:"token_id"`
}

// maxSigningKeys is the size of the cache of parsed keys. There are two or three keys at
// a time.
const maxSigningKeys = 16

// builtIn verifies access tokens of the built-in issuer.
type builtIn struct {
	parsed *lru.Cache[string, jose.JSONWebKey] // by the key's JSON
}

func newBuiltIn() *builtIn { return &builtIn{parsed: newLRU[jose.JSONWebKey](maxSigningKeys)} }

// accessToken returns the identity of the bearer of an access token, the token's end, and the id of
// its session. It must be of a configured issuer or of the built-in one, whose tokens end with the
// client's and have no session.
func (g *Gate) accessToken(
	ctx context.Context, token, source string,
) (id *holdfastv1.Identity, ends time.Time, session string, err error) {
	h, ok := peek(token)
	if !ok {
		return nil, ends, "", unauthenticated(ReasonBadCredentials, "cannot parse the access token: is it complete?")
	}
	if i := g.oidc.by[h.Issuer]; i != nil {
		id, end, session, err := i.verify(ctx, token)
		if err != nil {
			return nil, end, "", err
		}
		return id, end, session, nil
	}
	r := g.deps.Records()
	key := signingKey(r, h.KeyID)
	if key == nil {
		// Another peer may have just created the key and signed a token with it.
		hash := sum(h.KeyID)
		if r, err = g.readFresh(ctx, hash, source); err != nil {
			return nil, ends, "", unknownIssuer(err)
		}
		if key = signingKey(r, h.KeyID); key == nil {
			g.lookups.remember(hash)
			return nil, ends, "", unknownIssuer(errUnknownToken())
		}
	}
	claims, refusal := g.builtIn.verify(key, token, g.now())
	if refusal != nil {
		return nil, ends, "", refusal
	}
	id, err = g.clientIdentity(ctx, claims, source)
	return id, claims.Expiry.Time(), "", err
}

// unknownIssuer rewords the error about an unknown token if the unknown part is the
// issuer.
func unknownIssuer(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Reason == ReasonTokenUnknown {
		return unauthenticated(ReasonTokenUnknown,
			"unknown issuer of the access token: want the built-in issuer or one of oidc_issuers")
	}
	return err
}

// signingKey returns the key of the built-in issuer with that id, or nil if there is
// none.
func signingKey(r Records, id string) *internalv1.SigningKey {
	for _, k := range r.SigningKeys() {
		if k.GetKeyId() == id && id != "" {
			return k
		}
	}
	return nil
}

// verify checks the signature and claims of an access token, and returns the claims.
func (b *builtIn) verify(k *internalv1.SigningKey, token string, now time.Time) (*AccessClaims, *Error) {
	if k.GetRetiresAt() != nil && now.After(k.GetRetiresAt().AsTime()) {
		return nil, unauthenticated(ReasonTokenExpired,
			"the signing key of the access token has been retired: get a new token")
	}
	jwk, ok := b.parsed.Get(string(k.GetPublicJwk()))
	if !ok {
		if err := json.Unmarshal(k.GetPublicJwk(), &jwk); err != nil || !jwk.IsPublic() || !jwk.Valid() {
			return nil, unauthenticated(ReasonTokenInvalid, "the signing key of the access token is not usable")
		}
		b.parsed.Add(string(k.GetPublicJwk()), jwk)
	}
	alg := jose.SignatureAlgorithm(jwk.Algorithm)
	alg = cmp.Or(alg, jose.ES256)
	t, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{alg})
	var c AccessClaims
	if err == nil {
		err = t.Claims(jwk.Key, &c)
	}
	if err == nil && (c.Expiry == nil || c.TokenID == "") {
		err = errors.New("a claim is missing")
	}
	if err == nil {
		// The issuing peer's clock may be ahead of the recorded one, so only the end is exact.
		err = c.ValidateWithLeeway(jwt.Expected{AnyAudience: jwt.Audience{AccessAudience}, Time: now}, time.Minute)
	}
	if err == nil && now.After(c.Expiry.Time()) {
		err = jwt.ErrExpired
	}
	switch {
	case errors.Is(err, jwt.ErrExpired):
		return nil, unauthenticated(ReasonTokenExpired,
			"the access token expired at %s: get a new one", stamp(c.Expiry.Time()))
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return nil, unauthenticated(ReasonTokenEarly, "the access token is not valid yet: is the clock of a peer wrong?")
	case err != nil:
		return nil, unauthenticated(ReasonTokenInvalid,
			"invalid access token: want a signature of this cluster, an expiry, and the audience %q", AccessAudience)
	}
	return &c, nil
}

// clientIdentity returns the identity of the client that an access token was issued to.
// Role and pools are read from the current record of the client's token.
func (g *Gate) clientIdentity(ctx context.Context, c *AccessClaims, source string) (*holdfastv1.Identity, error) {
	t, ok := g.deps.Records().Token(c.TokenID)
	if !ok {
		hash := sum("client of " + c.TokenID)
		r, err := g.readFresh(ctx, hash, source)
		if err != nil {
			return nil, err
		}
		if t, ok = r.Token(c.TokenID); !ok {
			g.lookups.remember(hash)
			return nil, errUnknownToken()
		}
	}
	if err := alive(t, g.now()); err != nil {
		return nil, err
	}
	id := fromToken(t)
	id.Method = MethodOIDC
	return id, nil
}

// header contains the fields of a JWT that are read before it is verified.
type header struct{ KeyID, Issuer string }

// peek reads the key id and the issuer of an unverified JWT.
func peek(token string) (h header, ok bool) {
	parts := strings.Split(token, ".")
	var head struct {
		KeyID string `json:"kid"`
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if len(parts) != 3 || !decode(parts[0], &head) || !decode(parts[1], &claims) {
		return h, false
	}
	return header{KeyID: head.KeyID, Issuer: claims.Issuer}, true
}

func decode(part string, into any) bool {
	b, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(b, into) == nil
}

// Client authenticates a client of the built-in issuer. The id and secret are those of a
// token with the role SERVICE, whose identity it returns. The address and method of the
// call are for the audit trail. Calls count toward the client's rate limit, failed ones
// toward that of the address. It returns an *Error if the client is refused, or another
// error if the state could not be read.
func (g *Gate) Client(ctx context.Context, id, secret, addr, method string) (*holdfastv1.Identity, error) {
	who, err := g.client(ctx, id, secret, sourceOf(addr))
	if err = g.undecided(err); err != nil {
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

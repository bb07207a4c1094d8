package auth

import (
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

// AccessAudience is whom the access tokens of the built-in issuer are for: "aud" must name it.
const AccessAudience = "holdfast"

// AccessClaims are the claims of an access token of the built-in issuer. It is signed with a key of
// View.SigningKeys, which the header names in "kid"; "exp" is required. What its bearer may do is
// not in it: that stands on the record of the token that the client got it for, and ends with it.
type AccessClaims struct {
	jwt.Claims
	TokenID string `json:"token_id"`
}

// maxSigningKeys bounds the keys that are kept parsed: there are two or three at a time.
const maxSigningKeys = 16

// builtIn verifies access tokens of the built-in issuer.
type builtIn struct {
	parsed *lru.Cache[string, jose.JSONWebKey] // by the JSON of the key
}

func newBuiltIn() *builtIn { return &builtIn{parsed: newLRU[jose.JSONWebKey](maxSigningKeys)} }

// accessToken reports who an access token stands for: one of an issuer that is configured, or of
// our own.
func (g *Gate) accessToken(ctx context.Context, token, source string) (*holdfastv1.Identity, error) {
	h, ok := peek(token)
	if !ok {
		return nil, unauthenticated(ReasonBadCredentials, "the access token cannot be read: is it complete?")
	}
	if i := g.oidc.by[h.Issuer]; i != nil {
		id, err := i.verify(ctx, token)
		if err != nil {
			return nil, err
		}
		return id, nil
	}
	r := g.deps.Records()
	key := signingKey(r, h.KeyID)
	if key == nil {
		// Another peer may have made the key, and a token with it, a moment ago.
		hash := sum(h.KeyID)
		var err error
		if r, err = g.lookAgain(ctx, hash, source); err != nil {
			return nil, foreign(err)
		}
		if key = signingKey(r, h.KeyID); key == nil {
			g.second.remember(hash)
			return nil, foreign(errUnknownToken())
		}
	}
	claims, refusal := g.builtIn.verify(key, token, g.now())
	if refusal != nil {
		return nil, refusal
	}
	return g.ofClient(ctx, claims, source)
}

// foreign words a token of an issuer that nobody here knows.
func foreign(err error) error {
	if e, ok := isRefusal(err); ok && e.Reason == ReasonTokenUnknown {
		return unauthenticated(ReasonTokenUnknown, "the issuer of the access token is not known: it is neither the built-in one nor among oidc_issuers")
	}
	return err
}

// signingKey returns the key of the built-in issuer that a token names, until it retires.
func signingKey(r Records, id string) *internalv1.SigningKey {
	for _, k := range r.SigningKeys() {
		if k.GetKeyId() == id && id != "" {
			return k
		}
	}
	return nil
}

// verify returns the claims of an access token.
func (b *builtIn) verify(k *internalv1.SigningKey, token string, now time.Time) (*AccessClaims, *Error) {
	if k.GetRetiresAt() != nil && now.After(k.GetRetiresAt().AsTime()) {
		return nil, unauthenticated(ReasonTokenExpired, "the access token was signed with a key that has retired: get a new one")
	}
	jwk, ok := b.parsed.Get(string(k.GetPublicJwk()))
	if !ok {
		if err := json.Unmarshal(k.GetPublicJwk(), &jwk); err != nil || !jwk.IsPublic() || !jwk.Valid() {
			return nil, unauthenticated(ReasonTokenInvalid, "the key that the access token names cannot be used")
		}
		b.parsed.Add(string(k.GetPublicJwk()), jwk)
	}
	alg := jose.SignatureAlgorithm(jwk.Algorithm)
	if alg == "" {
		alg = jose.ES256
	}
	t, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{alg})
	var c AccessClaims
	if err == nil {
		err = t.Claims(jwk.Key, &c)
	}
	if err == nil && (c.Expiry == nil || c.TokenID == "") {
		err = errors.New("a claim is missing")
	}
	if err == nil {
		err = c.ValidateWithLeeway(jwt.Expected{AnyAudience: jwt.Audience{AccessAudience}, Time: now}, 0)
	}
	switch {
	case errors.Is(err, jwt.ErrExpired):
		return nil, unauthenticated(ReasonTokenExpired, "the access token has expired at %s: get a new one", stamp(c.Expiry.Time()))
	case err != nil:
		return nil, unauthenticated(ReasonTokenInvalid, "the access token is not good: it wants our signature, a time to live, and the audience %q", AccessAudience)
	}
	return &c, nil
}

// ofClient returns the identity of the client that an access token was made for, as it is recorded
// now.
func (g *Gate) ofClient(ctx context.Context, c *AccessClaims, source string) (*holdfastv1.Identity, error) {
	t, ok := g.deps.Records().Token(c.TokenID)
	if !ok {
		hash := sum("client of " + c.TokenID)
		r, err := g.lookAgain(ctx, hash, source)
		if err != nil {
			return nil, err
		}
		if t, ok = r.Token(c.TokenID); !ok {
			g.second.remember(hash)
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

// header is what is read of a JWT before anybody vouches for it.
type header struct{ KeyID, Issuer string }

// peek reads the key id and the issuer of a JWT that has not been verified.
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

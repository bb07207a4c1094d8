package auth

import (
	"crypto/sha256"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The maximum sizes of credentials, in bytes.
const (
	maxToken = 512      // Holdfast's own tokens have 86
	maxJWT   = 16 << 10 // tokens of some issuers list every group of the user
)

// parseBearer returns the token in the values of an Authorization header. The header is
// "Bearer X", or just X, which deployed agents send (docs/clients.md, 000). Without a
// header the token is empty.
func parseBearer(values []string) (string, *Error) {
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", unauthenticated(ReasonBadCredentials, "got %d authorization headers: send one", len(values))
	}
	v := strings.Trim(values[0], " \t")
	if scheme, rest, ok := strings.Cut(v, " "); ok && strings.EqualFold(scheme, "bearer") {
		v = strings.Trim(rest, " \t")
	} else if strings.EqualFold(v, "bearer") {
		v = ""
	}
	limit := maxToken
	if isJWT(v) {
		limit = maxJWT
	}
	if len(v) > limit {
		return "", unauthenticated(ReasonBadCredentials, "the token has %d bytes: want at most %d", len(v), limit)
	}
	for i := range len(v) {
		if !token68(v[i]) {
			return "", unauthenticated(ReasonBadCredentials,
				"the authorization header is not a bearer token: send `Authorization: Bearer` and the token")
		}
	}
	return v, nil
}

// token68 reports whether a byte may occur in a bearer token (RFC 6750 §2.1).
func token68(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '-' || c == '.' || c == '_' || c == '~' || c == '+' || c == '/' || c == '='
}

// isJWT reports whether a token is a JWT: it has three parts with dots between.
// Holdfast's own tokens contain no dot.
func isJWT(token string) bool { return strings.Count(token, ".") == 2 }

func sum(token string) []byte {
	s := sha256.Sum256([]byte(token))
	return s[:]
}

// alive returns the refusal of a token that is not valid, or nil.
func alive(t *holdfastv1.Token, now time.Time) *Error {
	if e := fsm.TokenGood(t, now); e != nil {
		return unauthenticated(e.Reason, "%s", e.Message)
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// fromToken returns the identity of the bearer of a token.
func fromToken(t *holdfastv1.Token) *holdfastv1.Identity {
	id := &holdfastv1.Identity{
		Principal: "token:" + t.GetName(),
		Role:      t.GetRole(),
		Pools:     t.GetPools(),
		TokenId:   t.GetTokenId(),
		Method:    MethodToken,
	}
	switch t.GetRole() {
	case holdfastv1.Role_AGENT:
		id.Principal, id.MachineId = "agent:"+t.GetMachineId(), t.GetMachineId()
	case holdfastv1.Role_POOL_AGENT:
		if len(t.GetPools()) > 0 {
			id.Principal = "pool:" + t.GetPools()[0]
		}
	case holdfastv1.Role_ENROLLER:
		if len(t.GetPools()) > 0 {
			id.Principal = "enroll:" + t.GetPools()[0]
		}
	case holdfastv1.Role_SERVICE:
		id.Principal = "service:" + t.GetName()
	}
	return id
}

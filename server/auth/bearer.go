package auth

import (
	"crypto/sha256"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The sizes of credentials, in bytes.
const (
	maxToken = 512      // ours have 86
	maxJWT   = 16 << 10 // those of some issuers name every group
)

// parseBearer reads the values of an Authorization header: "Bearer X", or X alone, as agents in the
// field send it (docs/clients.md, 000). Nothing at all gives an empty token.
func parseBearer(values []string) (string, *Error) {
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", unauthenticated(ReasonBadCredentials, "there are %d authorization headers: send one", len(values))
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
		return "", unauthenticated(ReasonBadCredentials, "the token has %d bytes, more than any of ours", len(v))
	}
	for i := range len(v) {
		if !token68(v[i]) {
			return "", unauthenticated(ReasonBadCredentials, "the authorization header is not a bearer token: send `Authorization: Bearer` and the token")
		}
	}
	return v, nil
}

// token68 reports whether a byte may stand in a bearer token (RFC 6750 §2.1).
func token68(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '-' || c == '.' || c == '_' || c == '~' || c == '+' || c == '/' || c == '='
}

// isJWT returns a signed access token, three parts with dots between, from a token of ours, which
// has none.
func isJWT(token string) bool { return strings.Count(token, ".") == 2 }

func sum(token string) []byte {
	s := sha256.Sum256([]byte(token))
	return s[:]
}

// alive reports why a token on record opens nothing (any more), or nil.
func alive(t *holdfastv1.Token, now time.Time) *Error {
	if e := fsm.TokenGood(t, now); e != nil {
		return unauthenticated(e.Reason, "%s", e.Message)
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// fromToken returns the identity that a token on record stands for.
func fromToken(t *holdfastv1.Token) *holdfastv1.Identity {
	id := &holdfastv1.Identity{
		Principal: "token:" + t.GetName(), Role: t.GetRole(), Pools: t.GetPools(), TokenId: t.GetTokenId(), Method: MethodToken,
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

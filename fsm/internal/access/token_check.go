package access

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// ValidateToken returns the violations of a requested token, except for its id and its times.
func ValidateToken(tok *holdfastv1.Token) []refusal.FieldViolation {
	bad := refusal.Violations{Prefix: "token."}
	if !lex.ValidName(tok.GetName(), maxTokenName) {
		bad.Add("name", "%q is not 1 to %d letters, digits, '.', '_', '-' or ':'", tok.GetName(), maxTokenName)
	}
	if n := len(tok.GetComment()); n > core.MaxNote {
		bad.Add("comment", "has %d bytes, at most %d are allowed", n, core.MaxNote)
	}
	pools, machine := len(tok.GetPools()), tok.GetMachineId()
	switch role := tok.GetRole(); role {
	case holdfastv1.Role_ADMIN, holdfastv1.Role_SERVICE:
		if pools > 0 {
			bad.Add("pools", "must be empty for role %s: it is not scoped to pools", role)
		}
	case holdfastv1.Role_VIEWER, holdfastv1.Role_OPERATOR:
	case holdfastv1.Role_AGENT:
		if machine == "" {
			bad.Add("machine_id", "is required for role AGENT: the token is valid for that machine only")
		}
	case holdfastv1.Role_POOL_AGENT, holdfastv1.Role_ENROLLER:
		if pools != 1 {
			bad.Add("pools", "has %d pools: a token of role %s has exactly one", pools, role)
		}
	default:
		bad.Add("role", "%q is not one of VIEWER, OPERATOR, ADMIN, AGENT, POOL_AGENT, ENROLLER, SERVICE", role.String())
	}
	switch role := tok.GetRole(); {
	case role == holdfastv1.Role_AGENT && pools > 0:
		bad.Add("pools", "must be empty for role AGENT: the machine's pool applies")
	case role != holdfastv1.Role_AGENT && machine != "":
		bad.Add("machine_id", "must be empty for role %s: only agents are bound to a machine", role)
	case machine != "" && !lex.ValidName(machine, 64):
		bad.Add("machine_id", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'", machine)
	}
	switch most := tok.GetMaxMachines(); {
	case most > 0 && tok.GetRole() != holdfastv1.Role_ENROLLER:
		bad.Add("max_machines", "must be 0 for role %s: only a token of role ENROLLER enrolls machines", tok.GetRole())
	case most > mostMachines:
		bad.Add("max_machines", "%d is not 1 to %d, or 0 for the default, %d", most, mostMachines, DefaultMachines)
	}
	if pools > limits.Pools {
		bad.Add("pools", "are %d, at most %d are allowed", pools, limits.Pools)
	}
	for i, p := range tok.GetPools() {
		if !lex.Printable(p, core.MaxPoolName) {
			bad.Add(fmt.Sprintf("pools[%d]", i), "%q is not 1 to %d visible characters", p, core.MaxPoolName)
		}
	}
	return bad.Fields
}

// CheckToken is AdmitToken without the check of the caller's privileges.
func CheckToken(t *core.Tx, s *internalv1.StoredToken) *refusal.Error {
	tok := s.GetToken()
	if !lex.ValidName(tok.GetTokenId(), 64) {
		return refusal.InvalidField("token.token_id", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'",
			tok.GetTokenId())
	}
	if len(s.GetSha256()) != sha256.Size {
		return refusal.InvalidField("sha256", "has %d bytes, want %d", len(s.GetSha256()), sha256.Size)
	}
	if err := refusal.Invalid(ValidateToken(tok)); err != nil {
		return err
	}
	if at := tok.GetExpiresAt(); at != nil && (!at.IsValid() || !at.AsTime().After(t.Now.AsTime())) {
		return refusal.InvalidField("token.expires_at", "%s is not after the current time %s",
			at.AsTime().Format(time.RFC3339), t.Now.AsTime().Format(time.RFC3339))
	}
	if t.Tokens.Has(tok.GetTokenId()) {
		return refusal.New(refusal.Aborted, refusal.ReasonIDTaken, "generated token id %q is in use", tok.GetTokenId())
	}
	if other, taken := TokenByHash(t.State, s.GetSha256()); taken {
		return refusal.New(refusal.AlreadyExists, "TOKEN_TAKEN",
			"the value of the token is that of token %q: generate another one",
			other.GetTokenId())
	}
	return nil
}

// checkPrivilege refuses a token with more rights than its caller has. The scope check covers
// its pools.
func checkPrivilege(t *core.Tx, tok *holdfastv1.Token) *refusal.Error {
	o := t.Command.GetOrigin()
	if o == nil { // the cluster itself
		return nil
	}
	role := o.GetRole()
	if own, ok := t.Tokens.Get(o.GetTokenId()); ok && own.GetToken().GetRole() != role {
		role = holdfastv1.Role_ROLE_UNSPECIFIED // the claimed role is not the token's
	}
	agents := tok.GetRole() == holdfastv1.Role_AGENT || tok.GetRole() == holdfastv1.Role_POOL_AGENT ||
		tok.GetRole() == holdfastv1.Role_ENROLLER
	switch {
	case tok.GetBootstrap():
	case role == holdfastv1.Role_ADMIN:
		return nil
	case role == holdfastv1.Role_OPERATOR && agents:
		return nil
	}
	return refusal.New(refusal.PermissionDenied, refusal.ReasonPrivilege,
		"role %s cannot create a token of role %s: ask an admin",
		role, tok.GetRole())
}

// TokenGood returns an error if a token is revoked or has expired. Inside the FSM, now is the
// cluster's clock (Meta.now); at the edge it may be the peer's own.
func TokenGood(tok *holdfastv1.Token, now time.Time) *refusal.Error {
	if tok.GetRevokedAt() != nil {
		return refusal.New(refusal.Unauthenticated, refusal.ReasonTokenRevoked,
			"token %q was revoked: ask for another one",
			tok.GetTokenId()).
			With("token_id", tok.GetTokenId())
	}
	if at := tok.GetExpiresAt(); at != nil && !now.Before(at.AsTime()) {
		return refusal.New(refusal.Unauthenticated, refusal.ReasonTokenExpired,
			"token %q has expired at %s: ask for another one",
			tok.GetTokenId(), at.AsTime().Format(time.RFC3339)).
			With("token_id", tok.GetTokenId())
	}
	return nil
}

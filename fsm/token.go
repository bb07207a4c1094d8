package fsm

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The indexes of tokens.
const (
	tokensByHash    = iota // the first bytes of the hash
	tokensByMachine        // machine: of its agent
	tokenIndexes           // how many there are
)

// hashPrefix is how much of a token's hash is in the index, in bytes: the rest is compared in
// constant time.
const hashPrefix = 8

// Limits of a token.
const (
	maxTokenName  = 64
	maxTokenPools = 64
	maxPoolName   = 128
	maxNote       = 1024 // bytes of a comment
)

func tokenSchema() *schema[*internalv1.StoredToken] {
	return &schema[*internalv1.StoredToken]{
		kind:    internalv1.SnapshotRecord_TOKENS,
		key:     func(s *internalv1.StoredToken) string { return s.GetToken().GetTokenId() },
		indexes: tokenIndexes,
		index: func(s *internalv1.StoredToken, add func(int, string)) {
			add(tokensByHash, hashKey(s.GetSha256()))
			if m := s.GetToken().GetMachineId(); m != "" {
				add(tokensByMachine, m+"/"+s.GetToken().GetTokenId())
			}
		},
	}
}

func hashKey(sum []byte) string { return string(sum[:min(len(sum), hashPrefix)]) }

func tokenNotFound(id string) *Error {
	return refuse(NotFound, "TOKEN_NOT_FOUND", "token %q not found", id).with("token_id", id)
}

// ValidateToken reports what is wrong with a token that somebody asks for, but for its id and its
// times.
func ValidateToken(tok *holdfastv1.Token) []FieldViolation {
	var bad []FieldViolation
	add := func(field, format string, args ...any) {
		bad = append(bad, FieldViolation{Field: "token." + field, Description: fmt.Sprintf(format, args...)})
	}
	if !validName(tok.GetName(), maxTokenName) {
		add("name", "%q is not 1 to %d letters, digits, '.', '_', '-' or ':'", tok.GetName(), maxTokenName)
	}
	if n := len(tok.GetComment()); n > maxNote {
		add("comment", "has %d bytes, at most %d are allowed", n, maxNote)
	}
	pools, machine := len(tok.GetPools()), tok.GetMachineId()
	switch role := tok.GetRole(); role {
	case holdfastv1.Role_ADMIN, holdfastv1.Role_SERVICE:
		if pools > 0 {
			add("pools", "must be empty for role %s: it is not scoped to pools", role)
		}
	case holdfastv1.Role_VIEWER, holdfastv1.Role_OPERATOR:
	case holdfastv1.Role_AGENT:
		if machine == "" {
			add("machine_id", "is required for role AGENT: the token is good for that machine alone")
		}
	case holdfastv1.Role_POOL_AGENT, holdfastv1.Role_ENROLLER:
		if pools != 1 {
			add("pools", "has %d pools: a token of role %s has exactly one", pools, role)
		}
	default:
		add("role", "%q is not one of VIEWER, OPERATOR, ADMIN, AGENT, POOL_AGENT, ENROLLER, SERVICE", role.String())
	}
	switch role := tok.GetRole(); {
	case role == holdfastv1.Role_AGENT && pools > 0:
		add("pools", "must be empty for role AGENT: the machine says which pool it is in")
	case role != holdfastv1.Role_AGENT && machine != "":
		add("machine_id", "must be empty for role %s: only agents are bound to a machine", role)
	case machine != "" && !validName(machine, 64):
		add("machine_id", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'", machine)
	}
	if pools > maxTokenPools {
		add("pools", "are %d, at most %d are allowed", pools, maxTokenPools)
	}
	for i, p := range tok.GetPools() {
		if !printable(p, maxPoolName) {
			add(fmt.Sprintf("pools[%d]", i), "%q is not 1 to %d visible characters", p, maxPoolName)
		}
	}
	return bad
}

// printable reports whether a text is not empty, not too long, and visible ASCII without a comma,
// which separates names in certificates and on command lines.
func printable(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for _, b := range []byte(s) {
		if b <= ' ' || b > '~' || b == ',' {
			return false
		}
	}
	return true
}

// createToken puts a token on record. The bootstrap token is the first of the cluster, and there is
// one for ever.
func (t *tx) createToken(c *internalv1.CreateToken) (*holdfastv1.Token, *Error) {
	tok := proto.CloneOf(c.GetToken().GetToken())
	if err := t.admitToken(c.GetToken()); err != nil {
		return nil, err
	}
	if tok.GetBootstrap() {
		if t.meta.GetBootstrapped() {
			return nil, refuse(FailedPrecondition, ReasonBootstrapped, "the bootstrap token of this cluster was made already: make tokens with it")
		}
		if tok.GetRole() != holdfastv1.Role_ADMIN {
			return nil, invalid("token.role", "of the bootstrap token must be ADMIN")
		}
		t.meta.Bootstrapped = true
	}
	return t.storeToken(c.GetToken()), nil
}

// admitToken refuses a token that cannot be recorded. Other commands that bring a token call it
// too, before they write anything.
func (t *tx) admitToken(s *internalv1.StoredToken) *Error {
	if err := t.checkToken(s); err != nil {
		return err
	}
	return t.checkPrivilege(s.GetToken())
}

// checkToken is admitToken without the check of what the caller may ask for.
func (t *tx) checkToken(s *internalv1.StoredToken) *Error {
	tok := s.GetToken()
	if !validName(tok.GetTokenId(), 64) {
		return invalid("token.token_id", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'", tok.GetTokenId())
	}
	if len(s.GetSha256()) != sha256.Size {
		return invalid("sha256", "has %d bytes, want %d", len(s.GetSha256()), sha256.Size)
	}
	if err := Invalid(ValidateToken(tok)); err != nil {
		return err
	}
	if tok.GetRole() == holdfastv1.Role_ENROLLER && !t.has(Level2) {
		return invalid("token.role", "%q needs feature level %d: upgrade all peers first", tok.GetRole().String(), Level2)
	}
	if at := tok.GetExpiresAt(); at != nil && (!at.IsValid() || !at.AsTime().After(t.now.AsTime())) {
		return invalid("token.expires_at", "%s is not after %s, which it is now", at.AsTime().Format(time.RFC3339), t.now.AsTime().Format(time.RFC3339))
	}
	if t.tokens.has(tok.GetTokenId()) {
		return refuse(Aborted, ReasonIDTaken, "generated token id %q is in use", tok.GetTokenId())
	}
	if other, taken := t.tokenByHash(s.GetSha256()); taken {
		return refuse(AlreadyExists, "TOKEN_TAKEN", "the value of the token is that of token %q: make another one", other.GetTokenId())
	}
	return nil
}

// checkPrivilege refuses a token that may more than the one who asks for it. Which pools it may
// have is a matter of scope.
func (t *tx) checkPrivilege(tok *holdfastv1.Token) *Error {
	o := t.cmd.GetOrigin()
	if o == nil { // the cluster itself
		return nil
	}
	role := o.GetRole()
	if own, ok := t.tokens.get(o.GetTokenId()); ok && own.GetToken().GetRole() != role {
		role = holdfastv1.Role_ROLE_UNSPECIFIED // what the caller is said to be is not what its token says
	}
	agents := tok.GetRole() == holdfastv1.Role_AGENT || tok.GetRole() == holdfastv1.Role_POOL_AGENT || tok.GetRole() == holdfastv1.Role_ENROLLER
	switch {
	case tok.GetBootstrap():
	case role == holdfastv1.Role_ADMIN:
		return nil
	case role == holdfastv1.Role_OPERATOR && agents:
		return nil
	}
	return refuse(PermissionDenied, ReasonPrivilege, "role %s makes no token of role %s: ask an admin", role, tok.GetRole())
}

func (t *tx) storeToken(s *internalv1.StoredToken) *holdfastv1.Token {
	s = proto.CloneOf(s)
	s.Token.CreatedAt, s.Token.RevokedAt, s.Token.CreatedBy = t.now, nil, clip(t.cmd.GetPrincipal(), maxAuditThing)
	t.tokens.put(s)
	return s.GetToken()
}

// revokeToken makes a token worth nothing, from this entry of the log on.
func (t *tx) revokeToken(c *internalv1.RevokeToken) (*holdfastv1.Token, *Error) {
	s, ok := t.tokens.get(c.GetTokenId())
	if !ok {
		return nil, tokenNotFound(c.GetTokenId())
	}
	if s.GetToken().GetRevokedAt() == nil {
		s.Token.RevokedAt = t.now
		t.tokens.put(s)
	}
	return s.GetToken(), nil
}

// revokeAgents revokes the tokens of a machine's agent: a machine that is registered again under
// the same id is another one.
func (t *tx) revokeAgents(machineID string) {
	var stale []*internalv1.StoredToken
	for _, s := range t.tokens.scan(tokensByMachine, machineID+"/", "") {
		if s.GetToken().GetRevokedAt() == nil {
			stale = append(stale, s)
		}
	}
	for _, s := range stale {
		s.Token.RevokedAt = t.now
		t.tokens.put(s)
	}
}

// dropTokens forgets tokens that open nothing any more. One that does stays, whatever the proposer
// thought.
func (t *tx) dropTokens(c *internalv1.DropTokens) *Error {
	for _, id := range c.GetTokenIds() {
		if s, ok := t.tokens.get(id); ok && TokenGood(s.GetToken(), t.now.AsTime()) != nil {
			t.tokens.delete(id)
		}
	}
	return nil
}

// TokenGood refuses a token that is revoked or has expired by now, which is the cluster's clock
// (Meta.now) inside the FSM and may be a peer's own at the edge.
func TokenGood(tok *holdfastv1.Token, now time.Time) *Error {
	if tok.GetRevokedAt() != nil {
		return refuse(Unauthenticated, ReasonTokenRevoked, "token %q was revoked: ask for another one", tok.GetTokenId()).with("token_id", tok.GetTokenId())
	}
	if at := tok.GetExpiresAt(); at != nil && !now.Before(at.AsTime()) {
		return refuse(Unauthenticated, ReasonTokenExpired, "token %q has expired at %s: ask for another one", tok.GetTokenId(), at.AsTime().Format(time.RFC3339)).
			with("token_id", tok.GetTokenId())
	}
	return nil
}

func (s *state) tokenByHash(sum []byte) (*holdfastv1.Token, bool) {
	if len(sum) != sha256.Size {
		return nil, false
	}
	for _, stored := range s.tokens.scan(tokensByHash, hashKey(sum), "") {
		if subtle.ConstantTimeCompare(stored.GetSha256(), sum) == 1 {
			return stored.GetToken(), true
		}
	}
	return nil, false
}

// TokensMark returns a value to compare with: as long as it is the same one, no token has changed.
// It says nothing of time, which ends tokens too.
func (v *View) TokensMark() any { return v.tokens.mark }

// TokenByHash returns the token whose value has a SHA-256, good or not: ask TokenGood.
func (v *View) TokenByHash(sum []byte) (*holdfastv1.Token, bool) { return v.tokenByHash(sum) }

// Token returns a token on record.
func (v *View) Token(id string) (*holdfastv1.Token, bool) {
	s, ok := v.tokens.get(id)
	return s.GetToken(), ok
}

// Tokens returns the tokens with an id above after, by id.
func (v *View) Tokens(after string) iter.Seq[*holdfastv1.Token] {
	return func(yield func(*holdfastv1.Token) bool) {
		for s := range v.tokens.ascend("", after) {
			if !yield(s.GetToken()) {
				return
			}
		}
	}
}

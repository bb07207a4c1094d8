package access

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const maxTokenName = 64 // bytes

// How many machines a token of role ENROLLER may enroll.
const (
	DefaultMachines = 1000
	mostMachines    = 100_000
)

func tokenNotFound(id string) *refusal.Error {
	return refusal.New(refusal.NotFound, "TOKEN_NOT_FOUND", "token %q not found", id).With("token_id", id)
}

// CreateToken stores a token. A cluster has only one bootstrap token, the first one.
func CreateToken(t *core.Tx, c *internalv1.CreateToken) (*holdfastv1.Token, *refusal.Error) {
	tok := proto.CloneOf(c.GetToken().GetToken())
	if err := AdmitToken(t, c.GetToken()); err != nil {
		return nil, err
	}
	if tok.GetBootstrap() {
		if t.Meta.GetBootstrapped() {
			return nil, refusal.New(refusal.FailedPrecondition, refusal.ReasonBootstrapped,
				"this cluster already has a bootstrap token: create tokens with it")
		}
		if tok.GetRole() != holdfastv1.Role_ADMIN {
			return nil, refusal.InvalidField("token.role", "of the bootstrap token must be ADMIN")
		}
		t.Meta.Bootstrapped = true
	}
	return StoreToken(t, c.GetToken()), nil
}

// AdmitToken refuses a token that cannot be stored. Other commands that carry a token call it
// too, before they write.
func AdmitToken(t *core.Tx, s *internalv1.StoredToken) *refusal.Error {
	if err := CheckToken(t, s); err != nil {
		return err
	}
	return checkPrivilege(t, s.GetToken())
}

// StoreToken stores a token that AdmitToken has accepted, and returns it.
func StoreToken(t *core.Tx, s *internalv1.StoredToken) *holdfastv1.Token {
	s = proto.CloneOf(s)
	s.Token.CreatedAt, s.Token.RevokedAt = t.Now, nil
	s.Token.EnrolledMachines = 0
	if s.GetToken().GetRole() == holdfastv1.Role_ENROLLER {
		s.Token.MaxMachines = cmp.Or(s.GetToken().GetMaxMachines(), DefaultMachines)
	}
	s.Token.CreatedBy = lex.Clip(t.Command.GetPrincipal(), core.MaxPrincipal)
	t.Tokens.Put(s)
	return s.GetToken()
}

// RevokeToken makes a token invalid from this log entry on.
func RevokeToken(t *core.Tx, c *internalv1.RevokeToken) (*holdfastv1.Token, *refusal.Error) {
	s, ok := t.Tokens.Get(c.GetTokenId())
	if !ok {
		return nil, tokenNotFound(c.GetTokenId())
	}
	if s.GetToken().GetRevokedAt() == nil {
		return Revoke(t, s), nil
	}
	return s.GetToken(), nil
}

// Revoke makes a stored token invalid, and returns it.
func Revoke(t *core.Tx, s *internalv1.StoredToken) *holdfastv1.Token {
	s = proto.CloneOf(s)
	s.Token.RevokedAt = t.Now
	t.Tokens.Put(s)
	return s.GetToken()
}

// RevokeAgents revokes the tokens of a machine's agent. If the id is registered again, it is
// another machine.
func RevokeAgents(t *core.Tx, machineID string) {
	var stale []*internalv1.StoredToken
	for _, s := range t.Tokens.Scan(schema.TokensByMachine, machineID+"/", "") {
		if s.GetToken().GetRevokedAt() == nil {
			stale = append(stale, s)
		}
	}
	for _, s := range stale {
		Revoke(t, s)
	}
}

// DropTokens deletes tokens that are no longer valid. It keeps a valid one, even if the
// proposer named it.
func DropTokens(t *core.Tx, c *internalv1.DropTokens) *refusal.Error {
	for _, id := range c.GetTokenIds() {
		if s, ok := t.Tokens.Get(id); ok && TokenGood(s.GetToken(), t.Now.AsTime()) != nil {
			t.Tokens.Delete(id)
		}
	}
	return nil
}

// TokenByHash returns the token whose value has a SHA-256.
func TokenByHash(s *core.State, sum []byte) (*holdfastv1.Token, bool) {
	if len(sum) != sha256.Size {
		return nil, false
	}
	for _, stored := range s.Tokens.Scan(schema.TokensByHash, schema.HashKey(sum), "") {
		if subtle.ConstantTimeCompare(stored.GetSha256(), sum) == 1 {
			return stored.GetToken(), true
		}
	}
	return nil, false
}

// TokensMark returns a value that changes whenever a token changes. It does not reflect
// expiry.
func (v *View) TokensMark() any { return v.s.Tokens.Mark() }

// TokenByHash returns the token whose value has this SHA-256. The token may be invalid: see
// TokenGood.
func (v *View) TokenByHash(sum []byte) (*holdfastv1.Token, bool) { return TokenByHash(v.s, sum) }

// Token returns the token with an id.
func (v *View) Token(id string) (*holdfastv1.Token, bool) {
	s, ok := v.s.Tokens.Get(id)
	return s.GetToken(), ok
}

// Tokens returns the tokens with an id above after, by id.
func (v *View) Tokens(after string) iter.Seq[*holdfastv1.Token] {
	return table.Map(v.s.Tokens.Ascend("", after), (*internalv1.StoredToken).GetToken)
}

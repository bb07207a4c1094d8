package fsm

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func tokenSchema() *schema[internalv1.StoredToken, *internalv1.StoredToken] {
	return &schema[internalv1.StoredToken, *internalv1.StoredToken]{
		kind: internalv1.SnapshotRecord_TOKENS,
		key:  func(s *internalv1.StoredToken) string { return s.GetToken().GetTokenId() },
	}
}

func (t *tx) createToken(_ *internalv1.CreateToken) (*holdfastv1.Token, *Error) {
	return nil, unbuilt()
}

func (t *tx) revokeToken(_ *internalv1.RevokeToken) (*holdfastv1.Token, *Error) {
	return nil, unbuilt()
}

func (t *tx) dropTokens(_ *internalv1.DropTokens) *Error { return unbuilt() }

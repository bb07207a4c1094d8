package fsm

import (
	"time"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ValidateSecret returns the violations of a secret's public part, except for its version.
func ValidateSecret(s *holdfastv1.Secret) []FieldViolation { return access.ValidateSecret(s) }

// ValidateToken returns the violations of a requested token, except for its id and its times.
func ValidateToken(tok *holdfastv1.Token) []FieldViolation { return access.ValidateToken(tok) }

// TokenGood returns an error if a token is revoked or has expired. Inside the FSM, now is the
// cluster's clock (Meta.now); at the edge it may be the peer's own.
func TokenGood(tok *holdfastv1.Token, now time.Time) *Error { return access.TokenGood(tok, now) }

// ValidateWebhook returns the violations of a requested webhook. The server checks its
// filter.
func ValidateWebhook(w *holdfastv1.Webhook) []FieldViolation { return access.ValidateWebhook(w) }

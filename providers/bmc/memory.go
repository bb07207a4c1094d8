package bmc

import (
	"context"
	"sync"
	"time"
)

// Memo is what is remembered of one BMC. It holds no secret. Whoever keeps it for all peers lets
// the next leader try the right driver first, go on counting, and end the session that the last one
// left.
type Memo struct {
	Driver      Protocol  `json:"driver,omitempty"`       // that worked
	Session     string    `json:"session,omitempty"`      // path of the Redfish session that is open
	LoggingIn   bool      `json:"logging_in,omitempty"`   // a login was begun whose session nobody has noted: there may be one
	Refused     int       `json:"refused,omitempty"`      // logins in a row
	RefusedWith string    `json:"refused_with,omitempty"` // version of the account
	ResetAt     time.Time `json:"reset_at,omitzero"`      // of the BMC itself
	Retried     string    `json:"retried,omitempty"`      // the RetryBmc that was taken into account last: its time
	OpenUntil   time.Time `json:"open_until,omitzero"`    // the circuit breaker lets nothing through before that
}

// with adds what this process knows itself and could not write down before its term ended: what
// makes it careful counts.
func (m Memo) with(own Memo) Memo {
	if m.Refused == 0 && m.RefusedWith == "" || m.RefusedWith == own.RefusedWith && own.Refused > m.Refused {
		m.Refused, m.RefusedWith = own.Refused, own.RefusedWith
	}
	if own.ResetAt.After(m.ResetAt) {
		m.ResetAt = own.ResetAt
	}
	if m.Driver == "" {
		m.Driver = own.Driver
	}
	return m
}

// Memory keeps memos by the name of the BMC: its address with the scheme, then # and the secret
// that it is used by, where a machine names one. It should answer quickly; the context is that of
// the call.
type Memory interface {
	Recall(ctx context.Context, bmc string) (Memo, error)
	Remember(ctx context.Context, bmc string, m Memo) error
}

// InMemory is a Memory that ends with the process.
type InMemory struct {
	mu    sync.Mutex
	memos map[string]Memo
}

// NewInMemory returns an empty memory.
func NewInMemory() *InMemory { return &InMemory{memos: map[string]Memo{}} }

// Recall returns what is known of a BMC; nothing is no error.
func (m *InMemory) Recall(_ context.Context, bmc string) (Memo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.memos[bmc], nil
}

// Remember keeps it.
func (m *InMemory) Remember(_ context.Context, bmc string, memo Memo) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.memos[bmc] = memo
	return nil
}

package bmc

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish"
)

// Memo is the stored state of one BMC. It contains no secret. A Memory shares it between peers, so
// that the next leader tries the right driver first, continues the counts, and ends the session
// that the last leader left open.
type Memo struct {
	Driver      Protocol  `json:"driver,omitempty"`       // that worked
	Session     string    `json:"session,omitempty"`      // path of the open Redfish session
	Owed        []string  `json:"owed,omitempty"`         // paths of other sessions of ours that are to be ended
	Logins      []Login   `json:"logins,omitempty"`       // without a recorded result
	Refused     int       `json:"refused,omitempty"`      // consecutive refused logins
	RefusedWith string    `json:"refused_with,omitempty"` // version of the account
	ResetAt     time.Time `json:"reset_at,omitzero"`      // last reset of the BMC
	Retried     string    `json:"retried,omitempty"`      // time of the last RetryBmc that was applied
	OpenUntil   time.Time `json:"open_until,omitzero"`    // the circuit breaker is open until then
}

// Login is one or more logins to a BMC whose result is unknown.
type Login = redfish.Login

// debt returns the sessions that are to be ended, besides Session.
func (m Memo) debt() redfish.Debt {
	return redfish.Debt{Paths: m.Owed, Logins: m.Logins}
}

// owes stores the sessions that are to be ended, besides Session.
func (m *Memo) owes(d redfish.Debt) {
	m.Owed, m.Logins = d.Paths, d.Logins
}

// OwesMore reports whether m has sessions or logins to be ended that before lacks.
func (m Memo) OwesMore(before Memo) bool {
	return slices.ContainsFunc(m.Owed, func(p string) bool { return !slices.Contains(before.Owed, p) }) ||
		slices.ContainsFunc(m.Logins, func(l Login) bool {
			return !slices.ContainsFunc(before.Logins, func(o Login) bool {
				return l.From == o.From && l.First.Equal(o.First) && l.Until.Equal(o.Until)
			})
		})
}

// equal reports whether both are the same.
func (m Memo) equal(o Memo) bool {
	return m.Driver == o.Driver && m.Session == o.Session && slices.Equal(m.Owed, o.Owed) &&
		slices.EqualFunc(m.Logins, o.Logins, Login.Equal) &&
		m.Refused == o.Refused && m.RefusedWith == o.RefusedWith && m.ResetAt.Equal(o.ResetAt) &&
		m.Retried == o.Retried && m.OpenUntil.Equal(o.OpenUntil)
}

// with adds state that this process could not save before its term ended. Where the two differ, the
// more cautious value counts.
func (m Memo) with(own Memo) Memo {
	if m.Refused == 0 && m.RefusedWith == "" || m.RefusedWith == own.RefusedWith && own.Refused > m.Refused {
		m.Refused, m.RefusedWith = own.Refused, own.RefusedWith
	}
	if own.ResetAt.After(m.ResetAt) {
		m.ResetAt = own.ResetAt
	}
	m.Driver = cmp.Or(m.Driver, own.Driver)
	return m
}

// Memory stores memos by the key of the BMC: its address with the scheme, then # and the name of
// the secret, if the machine names one. It should answer quickly. The context is that of the call.
type Memory interface {
	Recall(ctx context.Context, bmc string) (Memo, error)
	Remember(ctx context.Context, bmc string, m Memo) error
}

// InMemory is a Memory that lasts as long as the process.
type InMemory struct {
	mu    sync.Mutex
	memos map[string]Memo
}

// NewInMemory returns an empty memory.
func NewInMemory() *InMemory { return &InMemory{memos: map[string]Memo{}} }

// Recall returns the memo of a BMC. A BMC without one is not an error.
func (m *InMemory) Recall(_ context.Context, bmc string) (Memo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.memos[bmc], nil
}

// Remember stores the memo of a BMC.
func (m *InMemory) Remember(_ context.Context, bmc string, memo Memo) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.memos[bmc] = memo
	return nil
}

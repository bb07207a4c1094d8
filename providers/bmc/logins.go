package bmc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"

	"github.com/holdfast-metal/holdfast/providers"
)

// Account is a user of a BMC. It prints without its password.
type Account struct {
	User     string
	Password string `json:"-"`
	Version  string // of the secret it comes from; refused logins count anew with another. Empty: it is told by its content
}

// String leaves the password out.
func (a Account) String() string { return "account " + a.User }

// GoString does too.
func (a Account) GoString() string { return a.String() }

// LogValue does too.
func (a Account) LogValue() slog.Value { return slog.StringValue(a.String()) }

// version tells one account from another without keeping its password.
func (a Account) version() string {
	if a.Version != "" {
		return a.Version
	}
	sum := sha256.Sum256([]byte(a.User + "\x00" + a.Password))
	return hex.EncodeToString(sum[:6])
}

// Credentials finds the account for a machine's BMC: Machine.spec.bmc_credentials_ref names it.
type Credentials interface {
	// Account is called whenever a BMC is logged in to. Its errors hold no secret.
	Account(ctx context.Context, m providers.Machine) (Account, error)
}

// maxRefused is how many logins in a row a BMC may refuse: many lock the account at the third.
const maxRefused = 2

// logins counts the logins that one BMC refused, over all protocols.
type logins struct {
	mu       sync.Mutex
	refused  int
	version  string // of the account they were tried with
	underWay int    // begun and not answered
	answered chan struct{}
	changed  func(refused int, version string)
}

// begin waits until a login can be tried: those that are under way may be refused, too. Call end when it is answered, after done.
func (l *logins) begin(ctx context.Context, a Account) error {
	for {
		answered, err := l.enter(a)
		if answered == nil {
			return err
		}
		select {
		case <-answered:
		case <-ctx.Done():
			return fmt.Errorf("wait for other logins at the BMC: %w", ctx.Err())
		}
	}
}

// enter counts a login as under way, or gives what is closed when one that is has been answered.
func (l *logins) enter(a Account) (answered <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.allowed(a); err != nil {
		return nil, err
	}
	most := maxRefused
	if l.version == a.version() {
		most -= l.refused
	}
	if l.underWay < most {
		l.underWay++
		return nil, nil
	}
	if l.answered == nil {
		l.answered = make(chan struct{})
	}
	return l.answered, nil
}

// end is called when a login that was begun is over, however.
func (l *logins) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.underWay--
	if l.answered != nil {
		close(l.answered)
		l.answered = nil
	}
}

// allow says no to an account that was refused too often.
func (l *logins) allow(a Account) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.allowed(a)
}

func (l *logins) allowed(a Account) error {
	if l.refused < maxRefused || l.version != a.version() {
		return nil
	}
	return providers.Errorf(providers.Auth, "log in to the BMC as "+a.User,
		"not tried: it refused this account %d times, and one more might lock it; change the secret, then it is tried again", l.refused)
}

// recall goes on with the count of an earlier leader.
func (l *logins) recall(refused int, version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused, l.version = refused, version
}

// done counts a login.
func (l *logins) done(a Account, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, version := l.refused, l.version
	if ok || l.version != a.version() {
		l.refused = 0
	}
	l.version = a.version()
	if !ok {
		l.refused++
	}
	if l.changed != nil && (was != l.refused || version != l.version) {
		l.changed(l.refused, l.version)
	}
}

// refusedAs is the error of a login that was refused.
func refusedAs(a Account, err error) error {
	return providers.Errorf(providers.Auth, "log in to the BMC as "+a.User, "%w", fmt.Errorf("refused: %w", err))
}

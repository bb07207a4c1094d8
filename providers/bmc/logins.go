package bmc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

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

const (
	// maxRefused is how many logins in a row a BMC may refuse: many lock the account at the third.
	maxRefused = 2
	// refusedFor is how long an account is left alone then. BMCs lock an account for 30 minutes at
	// most, and refuse logins also while their account service starts; afterwards one login is
	// tried.
	refusedFor = 30 * time.Minute
)

// logins counts the logins that one BMC refused, over all protocols.
type logins struct {
	mu       sync.Mutex
	refused  int
	version  string    // of the account they were tried with
	last     time.Time // when one was last refused, or this peer learned of it
	underWay int       // begun and not answered
	answered chan struct{}
	changed  func(refused int, version string)
}

// begin waits until a login can be tried: those that are under way may be refused, too. Call end
// when it is answered, after done.
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
		most = max(1, most-l.refused) // one after refusedFor: see allowed
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

// allow returns an error for an account that was refused too often.
func (l *logins) allow(a Account) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.allowed(a)
}

func (l *logins) allowed(a Account) error {
	again := l.last.Add(refusedFor)
	if l.refused < maxRefused || l.version != a.version() || !time.Now().Before(again) {
		return nil
	}
	return providers.Errorf(providers.Auth, "log in to the BMC as "+a.User,
		"not tried: it refused this account %d times, and another login might lock it; change the secret, allow a login by holdfast machine bmc-retry, or wait for the next one at %s",
		l.refused, again.UTC().Format(time.RFC3339))
}

// recall goes on with the count of an earlier leader. When that was refused is not recorded: the
// account is left alone from now on, which is longer at worst.
func (l *logins) recall(refused int, version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if refused != l.refused || version != l.version {
		l.last = time.Now()
	}
	l.refused, l.version = refused, version
}

// forgive allows logins with the account that was refused.
func (l *logins) forgive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused == 0 {
		return
	}
	l.refused = 0
	if l.changed != nil {
		l.changed(l.refused, l.version)
	}
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
		l.refused = min(l.refused+1, maxRefused)
		l.last = time.Now()
	}
	if l.changed != nil && (was != l.refused || version != l.version) {
		l.changed(l.refused, l.version)
	}
}

// refusedAs is the error of a login that was refused.
func refusedAs(a Account, err error) error {
	return providers.Errorf(providers.Auth, "log in to the BMC as "+a.User, "%w", fmt.Errorf("refused: %w", err))
}

package access

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

// Account is a user of a BMC. It is printed without its password.
type Account struct {
	User     string
	Password string `json:"-"`
	Version  string // of the secret; a new version resets the count of refused logins; may be empty
}

// String returns the user without the password.
func (a Account) String() string { return "account " + a.User }

// GoString returns the user without the password.
func (a Account) GoString() string { return a.String() }

// LogValue returns the user without the password.
func (a Account) LogValue() slog.Value { return slog.StringValue(a.String()) }

// version identifies the account without storing its password.
func (a Account) version() string {
	if a.Version != "" {
		return a.Version
	}
	sum := sha256.Sum256([]byte(a.User + "\x00" + a.Password))
	return hex.EncodeToString(sum[:6])
}

const (
	// maxRefused is the number of consecutive refused logins after which no more are tried. Many
	// BMCs lock the account at the third.
	maxRefused = 2
	// refusedFor is the pause after that. BMCs lock an account for at most 30 minutes, and also
	// refuse logins while their account service starts. After the pause one login is tried.
	refusedFor = 30 * time.Minute
)

// Logins counts the logins that one BMC has refused, over all protocols.
type Logins struct {
	mu       sync.Mutex
	refused  int
	version  string    // of the account that was refused
	last     time.Time // time of the last refusal, or when this peer learned of it
	underWay int       // begun and not answered
	answered chan struct{}
	changed  func(refused int, version string)
}

// NewLogins returns a count of zero. It calls changed, with a lock held, after each change of the
// count and its account. changed may be nil.
func NewLogins(changed func(refused int, version string)) *Logins { return &Logins{changed: changed} }

// Begin blocks until a login may be tried: logins under way may be refused as well. When the login
// is answered, call Done and then End.
func (l *Logins) Begin(ctx context.Context, a Account) error {
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

// enter counts a login as under way. If there are too many, it returns a channel that is closed
// when one of them is answered.
func (l *Logins) enter(a Account) (answered <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.allowed(a); err != nil {
		return nil, err
	}
	limit := maxRefused
	if l.version == a.version() {
		limit = max(1, limit-l.refused) // one after refusedFor: see allowed
	}
	if l.underWay < limit {
		l.underWay++
		return nil, nil
	}
	if l.answered == nil {
		l.answered = make(chan struct{})
	}
	return l.answered, nil
}

// End marks a login as answered, with any outcome.
func (l *Logins) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.underWay--
	if l.answered != nil {
		close(l.answered)
		l.answered = nil
	}
}

// Allow returns an error if the account was refused too often.
func (l *Logins) Allow(a Account) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.allowed(a)
}

func (l *Logins) allowed(a Account) error {
	again := l.last.Add(refusedFor)
	if l.refused < maxRefused || l.version != a.version() || !time.Now().Before(again) {
		return nil
	}
	return providers.Errorf(providers.Auth, "log in to the BMC as "+a.User,
		"not tried: the BMC refused this account %d times, and another login might lock it; change the "+
			"secret, allow a login with holdfast machine bmc-retry, or wait for the next one at %s",
		l.refused, again.UTC().Format(time.RFC3339))
}

// Recall continues the count of an earlier leader. The time of its last refusal is not recorded, so
// the pause starts now, which is longer at worst.
func (l *Logins) Recall(refused int, version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if refused != l.refused || version != l.version {
		l.last = time.Now()
	}
	l.refused, l.version = refused, version
}

// Forgive allows logins with the refused account again.
func (l *Logins) Forgive() {
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

// Done counts the result of a login.
func (l *Logins) Done(a Account, ok bool) {
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

// RefusedAs returns the error for a refused login.
func RefusedAs(a Account, err error) error {
	return providers.Errorf(providers.Auth, "log in to the BMC as "+a.User, "%w", fmt.Errorf("refused: %w", err))
}

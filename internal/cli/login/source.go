package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"
)

const (
	early   = 30 * time.Second // before its expiry, a token is refreshed
	timeout = 10 * time.Second // of a request to an issuer
)

// Source returns the token of a sign-in, which it refreshes when it expires. It is safe for
// concurrent use, also by several processes.
type Source struct {
	store Store
	now   func() time.Time

	mu   sync.Mutex
	last Saved
}

// NewSource returns the source of a sign-in that was loaded from a store.
func NewSource(s Store, v Saved, now func() time.Time) *Source {
	return &Source{store: s, last: v, now: now}
}

// Token returns a valid token. Its errors name the remedy.
func (s *Source) Token(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fresh(s.last) {
		return s.last.Token, nil
	}
	unlock, err := s.store.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	v, ok, err := s.store.Load()
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "", errors.New("you have signed out: run: holdfast login")
	}
	if s.last = v; s.fresh(v) { // another process has refreshed it
		return v.Token, nil
	}
	next, err := s.refresh(ctx, v)
	switch {
	case err == nil:
		s.last = next
		return next.Token, s.store.Save(next)
	case s.now().Before(v.Expires):
		return v.Token, nil // it is still valid for a moment
	}
	return "", err
}

func (s *Source) fresh(v Saved) bool { return s.now().Add(early).Before(v.Expires) }

// refresh returns the sign-in with new tokens.
func (s *Source) refresh(ctx context.Context, v Saved) (Saved, error) {
	if v.Refresh == "" {
		return v, fmt.Errorf("the sign-in with %s ended at %s: run: holdfast login", v.Issuer, clock(v.Expires))
	}
	// A call that is given up must not lose the new refresh token.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	c := &oauth2.Config{ClientID: v.ClientID,
		Endpoint: oauth2.Endpoint{TokenURL: v.TokenURL, AuthStyle: oauth2.AuthStyleInParams}}
	t, err := c.TokenSource(withClient(ctx), &oauth2.Token{RefreshToken: v.Refresh}).Token()
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response.StatusCode < 500 {
		return v, fmt.Errorf("the sign-in with %s has ended: run: holdfast login", v.Issuer)
	}
	if err != nil {
		return v, fmt.Errorf("refresh the sign-in with %s: %w: retry, or run: holdfast login", v.Issuer, cause(err))
	}
	return v.with(t)
}

// withClient returns a context for requests of package oauth2. Redirects are not followed,
// because they could lead to any address.
func withClient(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
}

// cause returns the error of a request without what the issuer answered, which may be a token.
func cause(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if refused.ErrorCode != "" {
			return fmt.Errorf("it answered %.100q", refused.ErrorCode)
		}
		return fmt.Errorf("it answered %s", refused.Response.Status)
	}
	return err
}

func clock(t time.Time) string { return t.Local().Format("15:04") }

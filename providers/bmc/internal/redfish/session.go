package redfish

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
)

// session authenticates requests.
type session struct {
	account access.Account
	token   string
	path    string // resource of the session; DELETE ends it
	basic   bool   // basic authentication, for a service without sessions
	used    time.Time
}

// flight is a login under way, which several callers may wait for.
type flight struct {
	done    chan struct{}
	session *session
	err     error
}

// loginTime bounds a login, which makes up to four requests.
const loginTime = 20 * time.Second

// open returns the session. If there is none, it logs in. The login continues after the caller has
// given up, because an aborted login would leave an unknown session behind. It ends within
// loginTime.
func (c *Client) open(ctx context.Context) (*session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, access.ErrClosed
	}
	if s := c.session; s != nil {
		s.used = time.Now()
		c.mu.Unlock()
		return s, nil
	}
	f := c.flight
	if f == nil {
		f = &flight{done: make(chan struct{})}
		c.flight = f
		c.work.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(providers.Unhurried(ctx)), loginTime)
			defer cancel()
			s, err := c.logIn(ctx)
			c.mu.Lock()
			defer c.mu.Unlock()
			f.session, f.err, c.flight, c.session = s, err, nil, s
			close(f.done)
		})
	}
	c.mu.Unlock()
	select {
	case <-f.done:
		return f.session, f.err
	case <-ctx.Done():
		return nil, fmt.Errorf("log in to the BMC: %w", ctx.Err())
	}
}

// forget drops a session that the service no longer knows.
func (c *Client) forget(ctx context.Context, s *session) {
	c.mu.Lock()
	ours := c.session == s
	if ours {
		c.session = nil
	}
	c.mu.Unlock()
	if ours {
		c.cfg.Record.Ended(ctx, s.path) // nothing is left to end
	}
}

// logIn opens a session. If the service has no room for one, logIn ends the sessions that this
// account has left open.
func (c *Client) logIn(ctx context.Context) (*session, error) {
	a, err := c.cfg.BMC.Account(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.cfg.BMC.Logins.Allow(a); err != nil {
		return nil, err
	}
	root, err := c.service(ctx)
	if err != nil {
		return nil, err
	}
	if root.Links.Sessions.ID == "" || access.QuirksOf(c.Vendor()).BasicAuth {
		return c.tryBasic(ctx, root, a)
	}
	_, owed := c.cfg.Record.Left()
	if err := c.cfg.Record.Begin(ctx); err != nil {
		return nil, err
	}
	// failpoint: login-begun
	s, err := c.create(ctx, root, a)
	if full(err) {
		if err := c.clear(ctx, &session{account: a, basic: true}, ""); err != nil {
			return nil, fmt.Errorf("end old sessions of %s: %w", a.User, err)
		}
		s, err = c.create(ctx, root, a)
	}
	c.mu.Lock()
	lost := c.lost || owed
	c.mu.Unlock()
	if err != nil {
		c.keepNoted(ctx, lost)
		return nil, err
	}
	// failpoint: session-made
	c.cfg.BMC.Logins.Done(a, true)
	former, _ := c.cfg.Record.Left()
	owed = lost || former != "" && former != s.path
	c.cfg.Record.Noted(ctx, s.path, owed)
	// failpoint: session-noted
	if owed {
		c.endEarlier(ctx, s, former, lost)
	}
	return s, nil
}

// create posts to the collection of sessions.
func (c *Client) create(ctx context.Context, root *serviceRoot, a access.Account) (*session, error) {
	body := struct{ UserName, Password string }{a.User, a.Password}
	res, err := c.send(ctx, request{method: http.MethodPost, path: root.Links.Sessions.ID, body: body})
	switch status := statusOf(err); {
	case mustChange(err):
		return nil, refusedForChange(a, err)
	case !full(err) && (status == http.StatusUnauthorized || status == http.StatusForbidden):
		c.cfg.BMC.Logins.Done(a, false)
		return nil, access.RefusedAs(a, err)
	case err != nil && status == 0 && !notSent(err):
		c.setLost(true)
		return nil, err
	case err != nil:
		return nil, notYet(err)
	}
	s := &session{account: a, token: res.header.Get("X-Auth-Token"), used: time.Now()}
	var body2 link
	_ = res.decode(&body2) // the path, if there is no Location
	if u, err := url.Parse(res.header.Get("Location")); err == nil && u.Path != "" {
		s.path = u.EscapedPath()
	} else {
		s.path = body2.ID
	}
	if s.token == "" || s.path == "" {
		return nil, access.Disagree("log in to the BMC as %s: no X-Auth-Token or Location in the response", a.User)
	}
	return s, nil
}

// tryBasic tests the account once before requests use it: several bad ones at once could lock it.
func (c *Client) tryBasic(ctx context.Context, root *serviceRoot, a access.Account) (*session, error) {
	s := &session{account: a, basic: true, used: time.Now()}
	_, err := c.send(ctx, request{method: http.MethodGet, path: root.Systems.ID, as: s})
	if mustChange(err) {
		return nil, refusedForChange(a, err)
	}
	if status := statusOf(err); status == http.StatusUnauthorized || status == http.StatusForbidden {
		c.cfg.BMC.Logins.Done(a, false)
		return nil, access.RefusedAs(a, err)
	}
	if err != nil {
		return nil, notYet(err)
	}
	c.cfg.BMC.Logins.Done(a, true)
	return s, nil
}

// full reports whether a login was refused because there are too many sessions.
func full(err error) bool {
	var r *reply
	return errors.As(err, &r) && (r.has("SessionLimitExceeded", "RAC0218") ||
		r.Status == http.StatusServiceUnavailable && !r.has("TemporarilyUnavailable"))
}

// notSent reports whether err means that the request was not sent.
func notSent(err error) bool {
	return dialFailed(err) || providers.ClassOf(err) == providers.Late
}

func dialFailed(err error) bool {
	var o *net.OpError
	return errors.As(err, &o) && o.Op == "dial"
}

// mustChange reports whether the service accepts the password, but nothing else until it is changed
// (DSP0266 §13.2.6). It does not count as a refused login, because it locks nothing.
func mustChange(err error) bool {
	var r *reply
	return errors.As(err, &r) && r.has("PasswordChangeRequired")
}

func refusedForChange(a access.Account, err error) error {
	return providers.Errorf(providers.Auth, "log in to the BMC as "+a.User,
		"the password has to be changed: change it at the BMC, then store it (holdfast secret put): %w", err)
}

package redfish

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish/loose"
)

// session authenticates requests.
type session struct {
	account access.Account
	token   string
	path    string // resource of the session, which a DELETE ends; empty if the service does not show it
	basic   bool   // basic authentication, for a service without sessions
	used    time.Time

	made, answered time.Time // it was created between them
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

// logIn opens a session. Only if the service has no room for one, logIn ends all sessions of this
// account. Otherwise it ends those of earlier logins of ours, because other programs may use the
// account.
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
	now := c.cfg.Now()
	began := Login{From: c.address(), First: now, Until: now.Add(loginTime)}
	former, owed, err := c.cfg.Record.Begin(ctx, began)
	if err != nil {
		return nil, err
	}
	// failpoint: login-begun
	s, err := c.create(ctx, root, a)
	if busyLogin(err) {
		if err := pause(ctx, busyPause); err != nil {
			return nil, err
		}
		s, err = c.create(ctx, root, a)
	}
	if full(err) {
		if err := c.clear(ctx, a); err != nil {
			return nil, fmt.Errorf("end old sessions of %s: %w", a.User, err)
		}
		s, err = c.create(ctx, root, a)
	}
	if err != nil && status0(err) {
		began.Until = c.cfg.Now()
		c.owe(Debt{Logins: []Login{began}}) // the answer was lost, and there may be a session
	}
	c.mu.Lock()
	owed = owed.and(c.debt)
	c.mu.Unlock()
	if err != nil || s.basic {
		c.cfg.Record.Noted(ctx, former, owed)
		if err == nil {
			c.cfg.BMC.Logins.Done(a, true)
		}
		return s, err
	}
	// failpoint: session-made
	c.cfg.BMC.Logins.Done(a, true)
	if former != s.path {
		owed = owed.owe(former)
	}
	c.cfg.Record.Noted(ctx, s.path, owed)
	// failpoint: session-noted
	if !owed.none() {
		c.repay(ctx, s, owed)
	}
	return s, nil
}

// address returns the address from which this peer reaches the BMC, or "".
func (c *Client) address() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.from
}

// busyPause is the pause before a login is tried again that a busy BMC has refused.
const busyPause = time.Second

// pause blocks for a while.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the BMC: %w", ctx.Err())
	}
}

// busyLogin reports whether the service cannot serve a login at the moment.
func busyLogin(err error) bool { return statusOf(err) == http.StatusServiceUnavailable && !full(err) }

// status0 reports whether err is not an answer, and the request may have been sent.
func status0(err error) bool { return statusOf(err) == 0 && !notSent(err) && !access.IsAnswered(err) }

// create posts to the collection of sessions. A service that does not take this, or returns no
// token, is used with basic authentication.
func (c *Client) create(ctx context.Context, root *serviceRoot, a access.Account) (*session, error) {
	at := root.Links.Sessions.ID
	body := struct{ UserName, Password string }{a.User, a.Password}
	res, err := c.send(ctx, request{method: http.MethodPost, path: at, body: body})
	switch {
	case mustChange(err):
		return nil, refusedForChange(a, err)
	case refusedLogin(err):
		c.cfg.BMC.Logins.Done(a, false)
		return nil, access.RefusedAs(a, err)
	case statusOf(err) == http.StatusMethodNotAllowed, statusOf(err) == http.StatusNotImplemented:
		return c.tryBasic(ctx, root, a)
	case err != nil:
		return nil, notYet(err)
	}
	s := &session{account: a, token: res.header.Get("X-Auth-Token"), used: time.Now(),
		made: res.sent, answered: c.cfg.Now()}
	s.path = sessionPath(at, res)
	if s.token == "" {
		basic, err := c.tryBasic(ctx, root, a)
		if err == nil && s.path != "" {
			_ = c.remove(ctx, s.path, basic)
		}
		return basic, err
	}
	if s.path == "" { // it is the only one of the account, or cannot be told apart
		if all, err := c.sessions(ctx, s); err == nil && len(all) == 1 {
			s.path = all[0].path
		}
	}
	return s, nil
}

// sessionPath returns the path of a session from the answer to its creation, or "". at is the
// collection of sessions, which relative paths are relative to.
func sessionPath(at string, a *answer) string {
	body, err := loose.Parse(a.body)
	if err != nil {
		body = loose.Object{} // the header has to do
	}
	below := func(id string) string { return strings.TrimRight(at, "/") + "/" + path.Base(id) }
	for _, p := range []string{a.header.Get("Location"), body.Text("@odata.id")} {
		u, err := url.Parse(p)
		switch {
		case err != nil || u.Path == "":
		case strings.HasPrefix(u.Path, "/"):
			return u.EscapedPath()
		default:
			return below(u.EscapedPath())
		}
	}
	if id := body.Text("Id"); id != "" {
		return below(url.PathEscape(id))
	}
	return ""
}

// refusedLogin reports whether the service refused the account at a login, with its own codes or
// with those of HTTP.
func refusedLogin(err error) bool {
	r, ok := errors.AsType[*reply](err)
	return ok && (r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden) &&
		!r.has(notNow()...) && !r.unlicensed()
}

// tryBasic tests the account once before requests use it: several bad ones at once could lock it.
func (c *Client) tryBasic(ctx context.Context, root *serviceRoot, a access.Account) (*session, error) {
	s := &session{account: a, basic: true, used: time.Now()}
	_, err := c.send(ctx, request{method: http.MethodGet, path: root.Systems.ID, as: s})
	if mustChange(err) {
		return nil, refusedForChange(a, err)
	}
	if refusedLogin(err) {
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
	r, ok := errors.AsType[*reply](err)
	return ok && r.has("SessionLimitExceeded", "RAC0218")
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

package bmc

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
	account Account
	token   string
	path    string // resource of the session; DELETE ends it
	basic   bool   // basic authentication, for a service without sessions
	used    time.Time
}

func (s *session) sign(r *http.Request) {
	if s.basic {
		r.SetBasicAuth(s.account.User, s.account.Password)
		return
	}
	r.Header.Set("X-Auth-Token", s.token)
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
func (c *redfishClient) open(ctx context.Context) (*session, error) {
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
func (c *redfishClient) forget(ctx context.Context, s *session) {
	c.mu.Lock()
	ours := c.session == s
	if ours {
		c.session = nil
	}
	c.mu.Unlock()
	if ours {
		c.login.ended(ctx, s.path) // nothing is left to end
	}
}

// logIn opens a session. If the service has no room for one, logIn ends the sessions that this
// account has left open.
func (c *redfishClient) logIn(ctx context.Context) (*session, error) {
	a, err := c.login.account(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.login.refused.Allow(a); err != nil {
		return nil, err
	}
	root, err := c.service(ctx)
	if err != nil {
		return nil, err
	}
	if root.Links.Sessions.ID == "" || c.login.quirks().BasicAuth {
		return c.tryBasic(ctx, root, a)
	}
	owed := c.login.begun()
	if err := c.login.begin(ctx); err != nil {
		return nil, err
	}
	// failpoint: login-begun
	s, err := c.create(ctx, root, a)
	if full(err) {
		if err := c.clear(ctx, (&session{account: a, basic: true}).sign, a.User, ""); err != nil {
			return nil, fmt.Errorf("end old sessions of %s: %w", a.User, err)
		}
		s, err = c.create(ctx, root, a)
	}
	c.mu.Lock()
	lost := c.lost || owed
	c.mu.Unlock()
	if err != nil {
		c.login.noted(ctx, c.login.former(), lost)
		return nil, err
	}
	// failpoint: session-made
	c.login.refused.Done(a, true)
	former := c.login.former()
	owed = lost || former != "" && former != s.path
	c.login.noted(ctx, s.path, owed)
	// failpoint: session-noted
	if owed {
		c.endEarlier(ctx, s, former, lost)
	}
	return s, nil
}

// endEarlier ends the sessions of earlier logins: the recorded one, or, if the result of a login is
// unknown, all others of this account. Sessions that could not be ended stay recorded until the
// next login, or until this session ends.
func (c *redfishClient) endEarlier(ctx context.Context, s *session, former string, lost bool) {
	var err error
	if lost {
		err = c.clear(ctx, s.sign, s.account.User, s.path)
	} else {
		err = c.remove(ctx, former, s.sign)
	}
	c.setLost(err != nil)
	if err == nil {
		c.login.noted(ctx, s.path, false)
	}
}

// remove ends the session at path, if there is one.
func (c *redfishClient) remove(ctx context.Context, path string, sign func(*http.Request)) error {
	_, err := c.send(ctx, request{method: http.MethodDelete, path: path, auth: sign})
	if statusOf(err) == http.StatusNotFound {
		return nil // it has expired
	}
	return err
}

// create posts to the collection of sessions.
func (c *redfishClient) create(ctx context.Context, root *serviceRoot, a Account) (*session, error) {
	body := struct{ UserName, Password string }{a.User, a.Password}
	res, err := c.send(ctx, request{method: http.MethodPost, path: root.Links.Sessions.ID, body: body})
	switch status := statusOf(err); {
	case mustChange(err):
		return nil, refusedForChange(a, err)
	case !full(err) && (status == http.StatusUnauthorized || status == http.StatusForbidden):
		c.login.refused.Done(a, false)
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
func (c *redfishClient) tryBasic(ctx context.Context, root *serviceRoot, a Account) (*session, error) {
	s := &session{account: a, basic: true, used: time.Now()}
	_, err := c.send(ctx, request{method: http.MethodGet, path: root.Systems.ID, auth: s.sign})
	if mustChange(err) {
		return nil, refusedForChange(a, err)
	}
	if status := statusOf(err); status == http.StatusUnauthorized || status == http.StatusForbidden {
		c.login.refused.Done(a, false)
		return nil, access.RefusedAs(a, err)
	}
	if err != nil {
		return nil, notYet(err)
	}
	c.login.refused.Done(a, true)
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

// carryOn is called when a term begins, with the session of the last leader. It returns the path of
// our own session if that is still open, because a BMC did not answer when it was to be ended. The
// last leader's session is then ended together with ours.
func (c *redfishClient) carryOn(former string) (path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil || c.session.path == former {
		return ""
	}
	c.lost = true
	return c.session.path
}

func (c *redfishClient) setLost(lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = lost
}

// clear ends all sessions of a user except one. No other client uses the account. If there may be
// no room for a session, sign uses basic authentication, which every service supports (DSP0266
// §13.3).
func (c *redfishClient) clear(ctx context.Context, sign func(*http.Request), user, except string) error {
	root, err := c.service(ctx)
	if err != nil {
		return err
	}
	res, err := c.send(ctx, request{method: http.MethodGet, path: root.Links.Sessions.ID, auth: sign})
	if err != nil {
		return notYet(err)
	}
	var all struct{ Members []link }
	if err := res.decode(&all); err != nil {
		return err
	}
	for _, m := range all.Members {
		if m.ID == except {
			continue
		}
		res, err := c.send(ctx, request{method: http.MethodGet, path: m.ID, auth: sign})
		if statusOf(err) == http.StatusNotFound {
			continue // it has ended
		}
		if err != nil {
			return err
		}
		var s struct{ UserName string }
		if err := res.decode(&s); err != nil {
			return err
		}
		if s.UserName != user {
			continue
		}
		if err := c.remove(ctx, m.ID, sign); err != nil {
			return err
		}
	}
	return nil
}

// idle ends the session if it has been unused for a while, together with those that earlier logins
// may have left.
func (c *redfishClient) idle(ctx context.Context, after time.Duration) error {
	c.mu.Lock()
	s, lost := c.session, c.lost
	if s == nil || time.Since(s.used) < after {
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()
	if lost {
		c.endEarlier(ctx, s, "", true)
	}
	c.mu.Lock()
	if c.session != s || time.Since(s.used) < after { // in use again
		c.mu.Unlock()
		return nil
	}
	c.session = nil
	c.mu.Unlock()
	return c.end(ctx, s)
}

// release ends all sessions with the BMC, after a login under way. A closed client opens no new
// session.
func (c *redfishClient) release(ctx context.Context, closing bool) error {
	c.mu.Lock()
	c.closed = c.closed || closing
	f := c.flight
	c.mu.Unlock()
	if f != nil {
		select {
		case <-f.done:
		case <-ctx.Done():
			return fmt.Errorf("wait for a login to the BMC: %w", ctx.Err())
		}
	}
	if closing {
		c.work.Wait()
	}
	c.mu.Lock()
	s, lost := c.session, c.lost
	c.session, c.lost = nil, false
	c.mu.Unlock()
	var err error
	if lost {
		err = c.findLost(ctx)
	}
	if err := errors.Join(err, c.end(ctx, s)); err != nil {
		return err
	}
	c.http.CloseIdleConnections()
	return nil
}

// findLost ends the sessions of logins whose answers were lost.
func (c *redfishClient) findLost(ctx context.Context) error {
	a, err := c.login.account(ctx)
	if err == nil {
		err = c.login.refused.Allow(a)
	}
	if err == nil {
		err = c.clear(ctx, (&session{account: a, basic: true}).sign, a.User, "")
	}
	if err != nil {
		c.setLost(true)
		return fmt.Errorf("end the sessions of unanswered logins: %w", err)
	}
	c.login.noted(ctx, c.login.former(), false)
	return nil
}

// end deletes a session. If the connection breaks, it retries once: a DELETE may be repeated.
func (c *redfishClient) end(ctx context.Context, s *session) error {
	if s == nil || s.basic {
		return nil
	}
	var err error
	for range 2 {
		_, err = c.send(ctx, request{method: http.MethodDelete, path: s.path, auth: s.sign})
		status := statusOf(err)
		if err == nil || status == http.StatusUnauthorized || status == http.StatusNotFound {
			c.login.ended(ctx, s.path)
			return nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	c.mu.Lock()
	if c.session == nil {
		c.session = s // for the next try
	} else {
		c.lost = true // to be ended with the session that was opened in the meantime
	}
	c.mu.Unlock()
	return fmt.Errorf("end session %s: %w", s.path, err)
}

// mustChange reports whether the service accepts the password, but nothing else until it is changed
// (DSP0266 §13.2.6). It does not count as a refused login, because it locks nothing.
func mustChange(err error) bool {
	var r *reply
	return errors.As(err, &r) && r.has("PasswordChangeRequired")
}

func refusedForChange(a Account, err error) error {
	return providers.Errorf(providers.Auth, "log in to the BMC as "+a.User,
		"the password has to be changed: change it at the BMC, then store it (holdfast secret put): %w", err)
}

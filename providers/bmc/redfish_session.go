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
)

// session is how requests prove who we are.
type session struct {
	account Account
	token   string
	path    string // of the session; its DELETE ends it
	basic   bool   // the service has no sessions
	used    time.Time
}

func (s *session) sign(r *http.Request) {
	if s.basic {
		r.SetBasicAuth(s.account.User, s.account.Password)
		return
	}
	r.Header.Set("X-Auth-Token", s.token)
}

// flight is a login that others wait for.
type flight struct {
	done    chan struct{}
	session *session
	err     error
}

// loginTime bounds a login, in which up to four requests are made.
const loginTime = 20 * time.Second

var errClosed = errors.New("the provider is closed")

// open returns the session, after logging in if there is none. The login goes on when the caller
// has gone: one that was cut off would leave a session behind that nobody knows. It ends within
// loginTime.
func (c *redfishClient) open(ctx context.Context) (*session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, errClosed
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

// forget drops a session that the service does not know any more.
func (c *redfishClient) forget(ctx context.Context, s *session) {
	c.mu.Lock()
	ours := c.session == s
	if ours {
		c.session = nil
	}
	c.mu.Unlock()
	if ours {
		c.login.ended(ctx, s.path) // there is nothing left to end
	}
}

// logIn makes a session. A service that has no place left for one is asked to end those that this
// account has left there.
func (c *redfishClient) logIn(ctx context.Context) (*session, error) {
	a, err := c.login.account(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.login.refused.allow(a); err != nil {
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
			return nil, fmt.Errorf("make room among the sessions of %s: %w", a.User, err)
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
	c.login.refused.done(a, true)
	former := c.login.former()
	owed = lost || former != "" && former != s.path
	c.login.noted(ctx, s.path, owed)
	// failpoint: session-noted
	if owed {
		c.endEarlier(ctx, s, former, lost)
	}
	return s, nil
}

// endEarlier ends what earlier logins have left: the session that was recorded, or, where it is not
// known what came of one, whatever else this account has open. What could not be ended stays
// recorded until it is, by the next login or with this session.
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

// remove ends the session at a path, if there is one.
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
		c.login.refused.done(a, false)
		return nil, refusedAs(a, err)
	case err != nil && status == 0 && !notSent(err):
		c.setLost(true)
		return nil, err
	case err != nil:
		return nil, notYet(err)
	}
	s := &session{account: a, token: res.header.Get("X-Auth-Token"), used: time.Now()}
	var body2 link
	_ = res.decode(&body2) // a second chance to learn the path
	if u, err := url.Parse(res.header.Get("Location")); err == nil && u.Path != "" {
		s.path = u.EscapedPath()
	} else {
		s.path = body2.ID
	}
	if s.token == "" || s.path == "" {
		return nil, disagree("log in to the BMC as %s: the service answered without X-Auth-Token or Location", a.User)
	}
	return s, nil
}

// tryBasic proves the account once before requests use it: several at a time could lock it.
func (c *redfishClient) tryBasic(ctx context.Context, root *serviceRoot, a Account) (*session, error) {
	s := &session{account: a, basic: true, used: time.Now()}
	_, err := c.send(ctx, request{method: http.MethodGet, path: root.Systems.ID, auth: s.sign})
	if mustChange(err) {
		return nil, refusedForChange(a, err)
	}
	if status := statusOf(err); status == http.StatusUnauthorized || status == http.StatusForbidden {
		c.login.refused.done(a, false)
		return nil, refusedAs(a, err)
	}
	if err != nil {
		return nil, notYet(err)
	}
	c.login.refused.done(a, true)
	return s, nil
}

// full reports whether a login was refused because there are too many sessions.
func full(err error) bool {
	var r *reply
	return errors.As(err, &r) && (r.has("SessionLimitExceeded", "RAC0218") ||
		r.Status == http.StatusServiceUnavailable && !r.has("TemporarilyUnavailable"))
}

// notSent reports whether an error means that the request did not leave.
func notSent(err error) bool {
	return dialFailed(err) || providers.ClassOf(err) == providers.Late
}

func dialFailed(err error) bool {
	var o *net.OpError
	return errors.As(err, &o) && o.Op == "dial"
}

// carryOn hears, when a term begins, which session the last leader had, and gives ours if it is
// another one that is still open: a BMC that did not answer kept it. Then the last leader's is to
// be ended with ours.
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

// clear ends the sessions of a user, other than one. The account of a BMC is ours alone. Where
// there may be no room for a session, sign goes by basic authentication, which every service has
// (DSP0266 §13.3).
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
			continue // it ended by itself
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

// idle ends the session when it has not been used for a while, after those that earlier logins may
// have left.
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
	if c.session != s || time.Since(s.used) < after { // somebody needs it after all
		c.mu.Unlock()
		return nil
	}
	c.session = nil
	c.mu.Unlock()
	return c.end(ctx, s)
}

// release ends what is open with the BMC, after a login that is under way. A client that is closed
// opens nothing any more.
func (c *redfishClient) release(ctx context.Context, closing bool) error {
	c.mu.Lock()
	c.closed = c.closed || closing
	f := c.flight
	c.mu.Unlock()
	if f != nil {
		select {
		case <-f.done:
		case <-ctx.Done():
			return fmt.Errorf("wait for a login to end: %w", ctx.Err())
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

// findLost ends the sessions of logins whose answer was lost.
func (c *redfishClient) findLost(ctx context.Context) error {
	a, err := c.login.account(ctx)
	if err == nil {
		err = c.login.refused.allow(a)
	}
	if err == nil {
		err = c.clear(ctx, (&session{account: a, basic: true}).sign, a.User, "")
	}
	if err != nil {
		c.setLost(true)
		return fmt.Errorf("end the sessions of logins that got no answer: %w", err)
	}
	c.login.noted(ctx, c.login.former(), false)
	return nil
}

// end deletes a session. A connection that breaks is tried a second time: a DELETE may be sent
// twice.
func (c *redfishClient) end(ctx context.Context, s *session) error {
	if s == nil || s.basic {
		return nil
	}
	var err error
	for range 2 {
		_, err = c.send(ctx, request{method: http.MethodDelete, path: s.path, auth: s.sign})
		if status := statusOf(err); err == nil || status == http.StatusUnauthorized || status == http.StatusNotFound {
			c.login.ended(ctx, s.path)
			return nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	c.mu.Lock()
	if c.session == nil {
		c.session = s // to be tried again
	} else {
		c.lost = true // with the session that was opened meanwhile
	}
	c.mu.Unlock()
	return fmt.Errorf("end session %s: %w", s.path, err)
}

// mustChange reports whether the service takes the password, and nothing else before it is changed
// (DSP0266 §13.2.6). It is no refused login: nothing is locked.
func mustChange(err error) bool {
	var r *reply
	return errors.As(err, &r) && r.has("PasswordChangeRequired")
}

func refusedForChange(a Account, err error) error {
	return providers.Errorf(providers.Auth, "log in to the BMC as "+a.User, "its password has to be changed first: change it at the BMC, then put the new one (holdfast secret put): %w", err)
}

package redfish

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish/loose"
)

// came stores the address from which this peer reaches the BMC.
func (c *Client) came(from net.Addr) {
	if host, _, err := net.SplitHostPort(from.String()); err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.from = host
	}
}

// settle ends the sessions that earlier logins left. as authenticates the requests. It returns the
// debt that stays recorded until the next login, or until this session ends: sessions that could
// not be ended, and logins whose session may still appear.
func (c *Client) settle(ctx context.Context, as *session, d Debt) Debt {
	left := Debt{}
	for _, p := range d.Paths {
		if p != as.path && c.remove(ctx, p, as) != nil {
			left = left.owe(p)
		}
	}
	for _, l := range d.Logins {
		age := c.cfg.Now().Sub(l.Until)
		if age > endsItself {
			continue
		}
		err := c.endUnanswered(ctx, as, l)
		l.Checked = err == nil
		if err != nil || age <= lateLogin {
			left = left.Add(l)
		}
	}
	return left
}

// remove ends the session at path, if there is one. as authenticates the request.
func (c *Client) remove(ctx context.Context, path string, as *session) error {
	_, err := c.send(ctx, request{method: http.MethodDelete, path: path, as: as})
	switch statusOf(err) {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return nil // it has expired, or will: the service lets nobody end it
	}
	return err
}

// CarryOn is called when a term begins, with the session of the last leader. It returns the path of
// our own session if that is still open, because a BMC did not answer when it was to be ended. The
// last leader's session is then ended together with ours.
func (c *Client) CarryOn(former string) (path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil || c.session.path == former {
		return ""
	}
	c.debt = c.debt.owe(former)
	return c.session.path
}

func (c *Client) setDebt(d Debt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.debt = d
}

func (c *Client) owe(d Debt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.debt = c.debt.and(d)
}

// sessionInfo has the properties we need of a Session resource.
type sessionInfo struct{ path, created, origin string }

// sessions reads the open sessions of an account. A session that the service refuses to show is
// left out: it may have ended.
func (c *Client) sessions(ctx context.Context, as *session) ([]sessionInfo, error) {
	root, err := c.service(ctx)
	if err != nil {
		return nil, err
	}
	res, err := c.send(ctx, request{method: http.MethodGet, path: root.Links.Sessions.ID, as: as})
	if err != nil {
		return nil, notYet(err)
	}
	all, err := loose.Parse(res.body)
	if err != nil {
		return nil, access.Disagree("read the sessions: %w", err)
	}
	var found []sessionInfo
	for _, at := range all.Links("Members") {
		res, err := c.send(ctx, request{method: http.MethodGet, path: at, as: as})
		if status := statusOf(err); status/100 == 4 {
			continue
		} else if err != nil {
			return nil, err
		}
		s, err := loose.Parse(res.body)
		if err == nil && s.Text("UserName") == as.account.User {
			found = append(found, sessionInfo{at, s.Text("CreatedTime"), s.Text("ClientOriginIPAddress")})
		}
	}
	return found, nil
}

// clear ends the sessions of an account, because the BMC has no room for another one. It uses basic
// authentication, which every service supports (DSP0266 §13.3).
func (c *Client) clear(ctx context.Context, a access.Account) error {
	as := &session{account: a, basic: true}
	all, err := c.sessions(ctx, as)
	for _, s := range all {
		if err := c.remove(ctx, s.path, as); err != nil {
			return err
		}
	}
	return err
}

// parseCreated parses the time of a session.
func parseCreated(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, s)
	return t, err == nil
}

// clockSlack is how exactly the times of sessions are compared. They have whole seconds.
const clockSlack = 2 * time.Second

// endUnanswered ends the sessions that logins without an answer have left: those of this account
// that were created at that time, or late, from that peer. The clock of the BMC is compared by
// means of our own session, which was created between the request and the answer. Other programs
// may use the same account. So a session of which the BMC does not show both is left to end by
// itself.
func (c *Client) endUnanswered(ctx context.Context, as *session, l Login) error {
	if as.basic || as.made.IsZero() || l.From == "" {
		return nil
	}
	all, err := c.sessions(ctx, as)
	if err != nil {
		return err
	}
	own := slices.IndexFunc(all, func(s sessionInfo) bool { return s.path == as.path })
	if own < 0 {
		return access.Disagree("end the sessions of unanswered logins: the service does not list ours")
	}
	clock, ok := parseCreated(all[own].created)
	if !ok {
		return nil
	}
	for _, s := range all {
		at, ok := parseCreated(s.created)
		if s.path == as.path || !ok || s.origin != l.From || !as.mayBeOf(l, at.Sub(clock)) {
			continue
		}
		if err := c.remove(ctx, s.path, as); err != nil {
			return err
		}
	}
	return nil
}

// mayBeOf reports whether a session that was created so long after s is of an unanswered login.
func (s *session) mayBeOf(l Login, since time.Duration) bool {
	earliest, latest := s.made.Add(since-clockSlack), s.answered.Add(since+clockSlack)
	return !latest.Before(l.First) && !earliest.After(l.Until.Add(lateLogin))
}

// Idle ends the session if it has been unused for a while, together with those that earlier logins
// may have left.
func (c *Client) Idle(ctx context.Context, after time.Duration) error {
	c.mu.Lock()
	s, d := c.session, c.debt
	if s == nil || s.path == "" && !s.basic || time.Since(s.used) < after { // without a path it cannot be ended
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()
	if !d.none() {
		c.repay(ctx, s, d)
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

// Release ends all sessions with the BMC, after a login under way. A closed client opens no new
// session.
func (c *Client) Release(ctx context.Context, closing bool) error {
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
	s, d := c.session, c.debt
	c.session = nil
	c.mu.Unlock()
	var err error
	if d.due() && s == nil { // only a session can end the others
		s, err = c.logIn(ctx)
	} else if d.due() && !s.basic {
		if left := c.repay(ctx, s, d); left.due() {
			err = errors.New("end the sessions of earlier logins: the BMC did not do it")
		}
	}
	if err := errors.Join(err, c.end(ctx, s)); err != nil {
		return err
	}
	c.cfg.HTTP.CloseIdleConnections()
	return nil
}

// repay ends the sessions of earlier logins within session s, and records what is left.
func (c *Client) repay(ctx context.Context, s *session, d Debt) (left Debt) {
	left = c.settle(ctx, s, d)
	c.setDebt(left)
	c.cfg.Record.Noted(ctx, s.path, left)
	return left
}

// end deletes a session. If the connection breaks, it retries once: a DELETE may be repeated.
func (c *Client) end(ctx context.Context, s *session) error {
	if s == nil || s.basic || s.path == "" {
		return nil
	}
	var err error
	for range 2 {
		_, err = c.send(ctx, request{method: http.MethodDelete, path: s.path, as: s})
		status := statusOf(err)
		if err == nil || slices.Contains([]int{http.StatusUnauthorized, http.StatusNotFound,
			http.StatusMethodNotAllowed, http.StatusNotImplemented}, status) {
			c.cfg.Record.Ended(ctx, s.path)
			return nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	c.mu.Lock()
	now := c.session
	if now == nil {
		c.session = s // for the next try
	} else {
		c.debt = c.debt.owe(s.path) // to be ended with the session that was opened in the meantime
	}
	d := c.debt
	c.mu.Unlock()
	if now != nil {
		c.cfg.Record.Noted(ctx, now.path, d)
	}
	return fmt.Errorf("end session %s: %w", s.path, err)
}

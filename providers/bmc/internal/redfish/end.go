package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// endEarlier ends the sessions of earlier logins: the recorded one, or, if the result of a login is
// unknown, all others of this account. Sessions that could not be ended stay recorded until the
// next login, or until this session ends.
func (c *Client) endEarlier(ctx context.Context, s *session, former string, lost bool) {
	var err error
	if lost {
		err = c.clear(ctx, s, s.path)
	} else {
		err = c.remove(ctx, former, s)
	}
	c.setLost(err != nil)
	if err == nil {
		c.cfg.Record.Noted(ctx, s.path, false)
	}
}

// remove ends the session at path, if there is one. as authenticates the request.
func (c *Client) remove(ctx context.Context, path string, as *session) error {
	_, err := c.send(ctx, request{method: http.MethodDelete, path: path, as: as})
	if statusOf(err) == http.StatusNotFound {
		return nil // it has expired
	}
	return err
}

// keepNoted keeps the recorded session. more is true if there may be others.
func (c *Client) keepNoted(ctx context.Context, more bool) {
	path, _ := c.cfg.Record.Left()
	c.cfg.Record.Noted(ctx, path, more)
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
	c.lost = true
	return c.session.path
}

func (c *Client) setLost(lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = lost
}

// clear ends all sessions of an account except one. No other client uses the account. as
// authenticates the requests. If there may be no room for a session, it uses basic authentication,
// which every service supports (DSP0266 §13.3).
func (c *Client) clear(ctx context.Context, as *session, except string) error {
	root, err := c.service(ctx)
	if err != nil {
		return err
	}
	res, err := c.send(ctx, request{method: http.MethodGet, path: root.Links.Sessions.ID, as: as})
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
		res, err := c.send(ctx, request{method: http.MethodGet, path: m.ID, as: as})
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
		if s.UserName != as.account.User {
			continue
		}
		if err := c.remove(ctx, m.ID, as); err != nil {
			return err
		}
	}
	return nil
}

// Idle ends the session if it has been unused for a while, together with those that earlier logins
// may have left.
func (c *Client) Idle(ctx context.Context, after time.Duration) error {
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
	c.cfg.HTTP.CloseIdleConnections()
	return nil
}

// findLost ends the sessions of logins whose answers were lost.
func (c *Client) findLost(ctx context.Context) error {
	a, err := c.cfg.BMC.Account(ctx)
	if err == nil {
		err = c.cfg.BMC.Logins.Allow(a)
	}
	if err == nil {
		err = c.clear(ctx, &session{account: a, basic: true}, "")
	}
	if err != nil {
		c.setLost(true)
		return fmt.Errorf("end the sessions of unanswered logins: %w", err)
	}
	c.keepNoted(ctx, false)
	return nil
}

// end deletes a session. If the connection breaks, it retries once: a DELETE may be repeated.
func (c *Client) end(ctx context.Context, s *session) error {
	if s == nil || s.basic {
		return nil
	}
	var err error
	for range 2 {
		_, err = c.send(ctx, request{method: http.MethodDelete, path: s.path, as: s})
		status := statusOf(err)
		if err == nil || status == http.StatusUnauthorized || status == http.StatusNotFound {
			c.cfg.Record.Ended(ctx, s.path)
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

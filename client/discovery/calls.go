package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

const base = "/api/v1/management/discovery"

// errForgotten is a 404: the router does not know the service.
var errForgotten = errors.New("the router does not know the service")

func (m *Manager) postJSON(ctx context.Context, path string, body any) (*rest.Answer, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	return m.peers.Post(ctx, rest.Request{Path: base + path, Body: b, JSON: true})
}

// postNew is like postJSON for a target without an id. Each router that accepts it creates
// another service.
func (m *Manager) postNew(ctx context.Context, path string, body any) (*rest.Answer, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	return m.peers.Post(ctx, rest.Request{Path: base + path, Body: b, JSON: true, OneByOne: true})
}

// tryRegister registers once, with the known id if there is one, and stores the assigned
// id.
func (m *Manager) tryRegister(ctx context.Context) error {
	sent, post := m.Target(), m.postJSON
	if sent.ID == "" {
		post = m.postNew
	}
	answer, err := post(ctx, "/register", sent)
	if err != nil {
		return err
	}
	if err := answer.Err(); err != nil {
		if sent.ID != "" && refusesID(answer.Status) {
			// The file keeps the id until another one is assigned.
			m.mu.Lock()
			m.target.ID = ""
			m.mu.Unlock()
			return fmt.Errorf("register as %s, next time as new: %w", sent.ID, err)
		}
		return err
	}
	id, err := assignedID(answer.Body, sent.ID)
	if err != nil {
		return err
	}
	m.set(Registered, id)
	if err := m.keep(id); err != nil {
		m.log.WarnContext(ctx, "registered, but the next start will not know the id", "err", err)
	}
	m.log.InfoContext(ctx, "registered", "id", id)
	for _, c := range m.cfg.Callbacks {
		c.OnRegistration(m, m.Target())
	}
	return nil
}

// refusesID reports whether a status may mean that the id is refused. 404 does not: a proxy
// in front of a failed router may return it for a missing path.
func refusesID(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// keep writes the id to the file, unless the file has it already.
func (m *Manager) keep(id string) error {
	if have, err := m.file.read(); err == nil && have == id {
		return nil
	}
	return m.file.write(id)
}

func (m *Manager) ping(ctx context.Context) error {
	t := m.Target()
	// The bare id without a Content-Type, as the original SDK sends it.
	answer, err := m.peers.Post(ctx, rest.Request{Path: base + "/ping/", Body: []byte(t.ID)})
	if err != nil {
		return err
	}
	if answer.OK() {
		m.set(Active, "")
	}
	for _, c := range m.cfg.Callbacks {
		c.OnPing(m, t, answer.Status)
	}
	return forgottenOr(answer)
}

func forgottenOr(a *rest.Answer) error {
	if a.Status == http.StatusNotFound {
		return errForgotten
	}
	return a.Err()
}

// flushReports sends the pending reports in order and reports whether the router has
// forgotten the service. A report that fails is sent again after the next successful ping.
func (m *Manager) flushReports(ctx context.Context) (forgotten bool) {
	for {
		s, ok := m.reports.take()
		if !ok {
			return false
		}
		answer, err := m.postJSON(ctx, "/update/"+url.PathEscape(m.Target().ID), s)
		if err == nil {
			err = forgottenOr(answer)
		}
		switch status := rest.Status(err); {
		case err == nil:
			continue
		case permanent(status):
			m.log.WarnContext(ctx, "router rejected the report, dropping it", "healthy", s.Healthy, "err", err)
			continue
		}
		m.reports.putBack(s)
		if errors.Is(err, errForgotten) {
			m.log.WarnContext(ctx, "the router does not know the service, registering again")
			return true
		}
		if ctx.Err() == nil {
			m.log.WarnContext(ctx, "report failed, will retry after the next ping", "err", err)
		}
		return false
	}
}

// permanent reports whether a status means that the router will never accept a report.
func permanent(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status < 500
}

// deregister deregisters the service within the time farewellTimeout. If that fails, Run
// ends anyway, and the router notices later that the pings have stopped.
func (m *Manager) deregister(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, farewellTimeout, fmt.Errorf("not done within %s", farewellTimeout))
	defer cancel()
	t := m.Target()
	again := rest.Backoff{Base: 100 * time.Millisecond, Max: time.Second}
	for try := 1; ; try++ {
		answer, err := m.postJSON(ctx, "/deregister", t)
		if err == nil {
			err = answer.Err()
		}
		if err == nil || answer != nil && answer.Status < 500 {
			if err != nil {
				m.log.WarnContext(ctx, "router refused the deregistration", "err", err)
			}
			for _, c := range m.cfg.Callbacks {
				c.OnDeregistration(m, t, answer.Status)
			}
			return
		}
		if rest.Sleep(ctx, again.Delay(try)) != nil {
			m.log.WarnContext(ctx, "deregistration failed, giving up", "err", err)
			return
		}
	}
}

package discovery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

const base = "/api/v1/management/discovery"

// errForgotten is a 404: the router does not know the service.
var errForgotten = errors.New("the router does not know the service")

// tryRegister registers once, with the known id if there is one, and stores the assigned
// id.
func (m *Manager) tryRegister(ctx context.Context) error {
	sent := m.Target()
	// Without an id, each router that accepts it creates another service.
	answer, err := m.peers.PostJSON(ctx, rest.Request{Path: base + "/register", OneByOne: sent.ID == ""}, sent)
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
		path := base + "/update/" + url.PathEscape(m.Target().ID)
		answer, err := m.peers.PostJSON(ctx, rest.Request{Path: path}, s)
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

// deregister deregisters the service. If that does not succeed in time, Run ends anyway, and the
// router notices later that the pings have stopped.
func (m *Manager) deregister(ctx context.Context) {
	t := m.Target()
	var answer *rest.Answer
	var err error
	final := rest.Farewell(ctx, func(ctx context.Context) bool {
		if answer, err = m.peers.PostJSON(ctx, rest.Request{Path: base + "/deregister"}, t); err != nil {
			return false
		}
		err = answer.Err()
		return answer.Status < 500
	})
	switch {
	case !final:
		m.log.WarnContext(ctx, "deregistration failed, giving up", "err", err)
		return
	case err != nil:
		m.log.WarnContext(ctx, "router refused the deregistration", "err", err)
	}
	for _, c := range m.cfg.Callbacks {
		c.OnDeregistration(m, t, answer.Status)
	}
}

package redfishtest

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const sessionsPath = "/redfish/v1/SessionService/Sessions"

type session struct {
	user   string
	token  string
	at     time.Time
	origin string // address of the client; empty if unknown
}

// check verifies a login and counts consecutive refusals, like a BMC that locks accounts.
func (s *Service) check(user, password string) bool {
	s.logins++
	locked := s.quirks.LockAfter > 0 && s.refused >= s.quirks.LockAfter
	if user != s.cfg.User || password != s.cfg.Password || locked {
		s.refused++
		return false
	}
	s.refused = 0
	return true
}

func unauthorized() *fault {
	return refuse(http.StatusUnauthorized, "NoValidSession", "There is no valid session or account.")
}

// logIn serves a login from an address.
func (s *Service) logIn(body map[string]any, from string) (*result, *fault) {
	switch {
	case s.quirks.LoginStatus != 0:
		return nil, refuse(s.quirks.LoginStatus, s.quirks.LoginCode, "The login is refused.")
	case s.quirks.BusyLogins > 0:
		s.quirks.BusyLogins--
		return nil, &fault{status: http.StatusServiceUnavailable, bare: true}
	}
	user, _ := body["UserName"].(string)
	password, _ := body["Password"].(string)
	if !s.check(user, password) {
		return nil, unauthorized()
	}
	if s.quirks.NewPassword {
		return nil, refuse(
			http.StatusForbidden,
			"PasswordChangeRequired",
			"The password of this account must be changed.",
		)
	}
	if l := s.quirks.SessionLimit; l > 0 && len(s.sessions) >= l {
		return nil, refuse(
			cmp.Or(s.quirks.LimitStatus, http.StatusServiceUnavailable),
			"SessionLimitExceeded",
			"There are too many sessions.",
		)
	}
	s.next++
	id := strconv.Itoa(s.next)
	origin, _, _ := net.SplitHostPort(from)
	s.sessions[id] = &session{user: user, token: rand.Text(), at: time.Now(), origin: origin}
	res := &result{
		status: http.StatusCreated,
		header: map[string]string{"X-Auth-Token": s.sessions[id].token, "Location": sessionsPath + "/" + id},
		body:   s.sessions[id].show(id),
		login:  true,
	}
	switch s.quirks.SessionLocation {
	case "none":
		delete(res.header, "Location")
		res.body = map[string]any{"Name": "Session"}
	case "id":
		res.header["Location"], res.body = id, nil
	case "body":
		delete(res.header, "Location")
		res.body = map[string]any{"Id": s.next}
	case "no token":
		delete(res.header, "X-Auth-Token")
	}
	return res, nil
}

func (n *session) show(id string) any {
	all := map[string]any{
		"@odata.id":   sessionsPath + "/" + id,
		"@odata.type": "#Session.v1_5_0.Session",
		"Id":          id,
		"Name":        "Session",
		"UserName":    n.user,
		"CreatedTime": n.at.UTC().Format(time.RFC3339),
	}
	if n.origin != "" {
		all["ClientOriginIPAddress"] = n.origin
	}
	return all
}

func (s *Service) authenticate(r *http.Request) *fault {
	if token := r.Header.Get("X-Auth-Token"); token != "" {
		for id, n := range s.sessions {
			if n.token == token {
				if s.quirks.ExpireSession {
					delete(s.sessions, id)
				}
				return nil
			}
		}
		return unauthorized()
	}
	if user, password, ok := r.BasicAuth(); ok && s.check(user, password) {
		return nil
	}
	return unauthorized()
}

func (s *Service) sessionService(r *http.Request, parts []string) (*result, *fault) {
	if s.quirks.NoSessions {
		return nil, notFound(r.URL.Path)
	}
	switch {
	case len(parts) == 0 && r.Method == http.MethodGet:
		return ok(map[string]any{
			"@odata.id":      "/redfish/v1/SessionService",
			"@odata.type":    "#SessionService.v1_1_8.SessionService",
			"Id":             "SessionService",
			"Name":           "Session Service",
			"ServiceEnabled": true,
			"Sessions":       ref(sessionsPath),
		}), nil
	case len(parts) == 1 && parts[0] == "Sessions" && r.Method == http.MethodGet:
		var ids []string
		for id := range s.sessions {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		return ok(s.collection("SessionService/Sessions", "Session", ids...)), nil
	case len(parts) == 2 && parts[0] == "Sessions":
		n := s.sessions[parts[1]]
		switch {
		case n == nil:
			return nil, notFound(r.URL.Path)
		case r.Method == http.MethodGet:
			return ok(n.show(parts[1])), nil
		case r.Method == http.MethodDelete && s.quirks.KeepSessions > 0:
			s.quirks.KeepSessions--
			return nil, busy()
		case r.Method == http.MethodDelete:
			delete(s.sessions, parts[1])
			return &result{status: http.StatusNoContent}, nil
		}
		return nil, notAllowed()
	}
	return nil, notFound(r.URL.Path)
}

// Open describes the open sessions: their users, the addresses of their clients, and their times.
func (s *Service) Open() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var open []string
	for id, n := range s.sessions {
		open = append(open, fmt.Sprintf("%s of %s from %s at %s", id, n.user, n.origin, n.at.Format(time.TimeOnly)))
	}
	slices.Sort(open)
	return open
}

// OpenSession opens a session of an account, as another client would.
func (s *Service) OpenSession(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	s.sessions[strconv.Itoa(s.next)] = &session{user: user, token: rand.Text(), at: time.Now()}
}

// CloseSessions ends the sessions of an account, as their client would.
func (s *Service) CloseSessions(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.sessions, func(_ string, n *session) bool { return n.user == user })
}

package ironictest

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"time"
)

// knows reports whether a request has a valid login.
func (s *Server) knows(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.Expire {
		s.faults.Expire = false
		clear(s.tokens)
		return false
	}
	if s.tokens[r.Header.Get("X-Auth-Token")] {
		return true
	}
	if s.cfg.Username == "" && s.cfg.AppID == "" {
		return true
	}
	user, password, ok := r.BasicAuth()
	if ok {
		s.logins++
	}
	return ok && user == s.cfg.Username && password == s.cfg.Password
}

// token serves keystone's login (Identity API v3).
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Auth struct {
			Identity struct {
				Methods  []string
				Password struct {
					User struct{ Name, Password string }
				}
				ApplicationCredential struct{ ID, Secret string } `json:"application_credential"`
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		answer(w, http.StatusBadRequest, nil)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logins++
	id := in.Auth.Identity
	user, app := id.Password.User, id.ApplicationCredential
	byUser := s.cfg.Username != "" && user.Name == s.cfg.Username && user.Password == s.cfg.Password
	byApp := s.cfg.AppID != "" && app.ID == s.cfg.AppID && app.Secret == s.cfg.AppKey
	if !byUser && !byApp {
		answer(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{
			"code":    401,
			"message": "The request you have made requires authentication.",
		}})
		return
	}
	token := rand.Text()
	s.tokens[token] = true
	w.Header().Set("X-Subject-Token", token)
	answer(w, http.StatusCreated, map[string]any{"token": map[string]any{
		"expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		"catalog": []any{map[string]any{"type": "baremetal", "name": "ironic", "endpoints": []any{
			map[string]any{"interface": "public", "region": "r1", "region_id": "r1", "url": s.URL},
		}}},
	}})
}

package discovery

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-metal/holdfast/client/internal/resttest"
)

// router implements the discovery API of specification 003. It may have several addresses.
type router struct {
	issuer *issuer // nil: no token is needed

	mu           sync.Mutex
	services     map[string]map[string]any
	registers    []time.Time
	pings        []time.Time
	updates      []State
	deregistered []string
	bad          []string // deviations of requests from the document
}

func (s *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.issuer != nil && !s.issuer.good(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
		w.WriteHeader(401)
		return
	}
	body, _ := io.ReadAll(r.Body)
	call, ok := strings.CutPrefix(r.URL.Path, "/api/v1/management/discovery")
	if !ok || r.Method != http.MethodPost {
		s.bad = append(s.bad, r.Method+" "+r.URL.Path)
		w.WriteHeader(404)
		return
	}
	wantType := "application/json"
	if call == "/ping/" {
		wantType = ""
	}
	if got := r.Header.Get("Content-Type"); got != wantType {
		s.bad = append(s.bad, call+" with Content-Type "+got)
	}
	switch {
	case call == "/register":
		s.register(w, body)
	case call == "/deregister":
		var t map[string]any
		_ = json.Unmarshal(body, &t)
		id, _ := t["id"].(string)
		s.deregistered = append(s.deregistered, id)
		s.known(w, id)
		delete(s.services, id)
	case call == "/ping/":
		if s.known(w, string(body)) {
			s.pings = append(s.pings, time.Now())
		}
	case strings.HasPrefix(call, "/update/"):
		var state State
		if err := json.Unmarshal(body, &state); err != nil || state.Timestamp.Location() != time.UTC {
			s.bad = append(s.bad, fmt.Sprintf("update with %s", body))
		}
		if s.known(w, strings.TrimPrefix(call, "/update/")) {
			s.updates = append(s.updates, state)
		}
	default:
		s.bad = append(s.bad, r.URL.Path)
		w.WriteHeader(404)
	}
}

func (s *router) register(w http.ResponseWriter, body []byte) {
	var t map[string]any
	if err := json.Unmarshal(body, &t); err != nil {
		w.WriteHeader(400)
		return
	}
	for _, name := range []string{"serviceName", "host", "port", "serviceType"} {
		if t[name] == nil {
			s.bad = append(s.bad, "register without "+name)
		}
	}
	id, ok := t["id"].(string)
	if !ok {
		id = uuid.NewString()
	}
	t["id"] = id
	if s.services == nil {
		s.services = make(map[string]map[string]any)
	}
	s.services[id] = t
	s.registers = append(s.registers, time.Now())
	answer, _ := json.Marshal(map[string]any{"error": nil, "data": t})
	_, _ = w.Write(answer)
}

func (s *router) known(w http.ResponseWriter, id string) bool {
	if s.services[id] == nil {
		w.WriteHeader(404)
		return false
	}
	return true
}

func (s *router) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.services = nil
}

func (s *router) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id := range s.services {
		ids = append(ids, id)
	}
	return ids
}

// issuer is an authorization server: client credentials (RFC 6749 §4.4) at /token.
type issuer struct {
	discovery bool          // has a /.well-known/openid-configuration
	formOnly  bool          // does not support HTTP Basic
	refresh   bool          // issues refresh tokens
	lives     time.Duration // zero: tokens do not expire

	mu     sync.Mutex
	n      int
	tokens map[string]time.Time // expiry; zero: never
	grants []string
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/realm/.well-known/openid-configuration" && i.discovery:
		fmt.Fprintf(w, `{"issuer":"https://%[1]s/realm","token_endpoint":"https://%[1]s/token","jwks_uri":"https://%[1]s/jwks","subject_types_supported":["public"]}`, r.Host)
	case r.Method == http.MethodPost && r.URL.Path == "/token":
		i.grant(w, r)
	default:
		w.WriteHeader(404)
	}
}

func (i *issuer) grant(w http.ResponseWriter, r *http.Request) {
	id, secret, basic := r.BasicAuth()
	if !basic || i.formOnly {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	w.Header().Set("Content-Type", "application/json")
	if id != "my-client" || secret != "s3cret" {
		w.WriteHeader(401)
		_, _ = io.WriteString(w, `{"error":"invalid_client","error_description":"no such client"}`)
		return
	}
	grant := r.PostFormValue("grant_type")
	i.grants = append(i.grants, grant)
	i.n++
	token := fmt.Sprintf("token-%d", i.n)
	if i.tokens == nil {
		i.tokens = make(map[string]time.Time)
	}
	answer := map[string]any{"access_token": token, "token_type": "Bearer"}
	i.tokens[token] = time.Time{}
	if i.lives > 0 {
		i.tokens[token] = time.Now().Add(i.lives)
		answer["expires_in"] = i.lives / time.Second
	}
	if i.refresh {
		answer["refresh_token"] = "again"
	}
	if grant == "refresh_token" && r.PostFormValue("refresh_token") != "again" {
		w.WriteHeader(400)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// good reports whether a token is valid.
func (i *issuer) good(token string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	until, ok := i.tokens[token]
	return ok && (until.IsZero() || time.Now().Before(until))
}

// revoke revokes all tokens.
func (i *issuer) revoke() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tokens = nil
}

// cluster serves one router under three addresses.
func cluster(s *router) *resttest.Network {
	n := new(resttest.Network)
	for _, host := range hosts() {
		n.Serve(host, s.ServeHTTP)
	}
	return n
}

func hosts() []string { return []string{"a", "b", "c"} }

// lastReport returns the reason in the last report.
func (s *router) lastReport() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.updates) == 0 {
		return ""
	}
	return s.updates[len(s.updates)-1].Reason
}

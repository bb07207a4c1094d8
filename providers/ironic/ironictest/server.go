// Package ironictest is a stateful Ironic in memory, for tests without Debian's packages. It has
// nodes with Ironic's state machine, transitions that take time and hold a lock, microversions, the
// three kinds of login, and faults that can be switched on. It imitates the observed responses of
// Ironic 21.4 (2023.1).
//
// It counts the accepted requests, so that a test can compare them with the results of a provider.
// It is for tests only.
package ironictest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Config is the configuration of a server. The zero value is an Ironic without authentication whose
// transitions take 20 ms.
type Config struct {
	Step     time.Duration // duration of each transition; default 20ms
	Least    int           // minor microversions; default 1
	Newest   int           // default 82
	Username string        // of http_basic, and of the users of keystone
	Password string
	AppID    string // of an application credential
	AppKey   string
}

// Faults are faults that can be switched on.
type Faults struct {
	FailDeploy  string // last_error with which every deployment fails
	FailClean   string // likewise, for cleaning
	FailPower   string // last_error of power changes, which are accepted without effect
	IgnoreBoot  bool   // 204 without effect
	DropAnswers bool   // for changes: they are done, but the connection closes
	Expire      bool   // the next request gets a 401
	Errors      int    // number of changes that get a 500
}

// Server is an Ironic.
type Server struct {
	*httptest.Server
	cfg Config

	mu     sync.Mutex
	nodes  map[string]*Node
	faults Faults
	asked  []string
	logins int
	tokens map[string]bool
	work   sync.WaitGroup
	over   chan struct{}
}

// New starts a server that is stopped at the end of the test.
func New(t testing.TB, c Config) *Server {
	t.Helper()
	c.Step = cmp.Or(c.Step, 20*time.Millisecond)
	c.Least = cmp.Or(c.Least, 1)
	c.Newest = cmp.Or(c.Newest, 82)
	s := &Server{cfg: c, nodes: map[string]*Node{}, tokens: map[string]bool{}, over: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.versions)
	mux.HandleFunc("GET /v1/{$}", s.versions)
	mux.HandleFunc("GET /v1/nodes/{node}", s.with(s.show))
	mux.HandleFunc("PATCH /v1/nodes/{node}", s.with(s.patch))
	mux.HandleFunc("PUT /v1/nodes/{node}/states/power", s.with(s.power))
	mux.HandleFunc("PUT /v1/nodes/{node}/states/provision", s.with(s.provision))
	mux.HandleFunc("GET /v1/nodes/{node}/management/boot_device", s.with(s.bootDevice))
	mux.HandleFunc("PUT /v1/nodes/{node}/management/boot_device", s.with(s.setBootDevice))
	mux.HandleFunc("GET /v1/nodes/{node}/inventory", s.with(s.inventory))
	mux.HandleFunc("POST /identity/v3/auth/tokens", s.token)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		close(s.over)
		s.Close()
		s.work.Wait()
	})
	return s
}

// Set changes the faults.
func (s *Server) Set(f func(*Faults)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.faults)
}

// Versions changes the range of minor microversions, as an upgrade does.
func (s *Server) Versions(least, newest int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Least, s.cfg.Newest = least, newest
}

// Asked returns the accepted changes in order, such as "node power: power off" and "node provision:
// active".
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Count returns how often a change was accepted.
func (s *Server) Count(what string) int {
	n := 0
	for _, a := range s.Asked() {
		if a == what {
			n++
		}
	}
	return n
}

// Logins returns the number of logins, good or bad.
func (s *Server) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

func (s *Server) versions(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	v := map[string]any{
		"id":          "v1",
		"status":      "CURRENT",
		"min_version": "1." + strconv.Itoa(s.cfg.Least),
		"version":     "1." + strconv.Itoa(s.cfg.Newest),
	}
	s.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{
		"name":            "OpenStack Ironic API",
		"default_version": v,
		"versions":        []any{v},
	})
}

// with adds the checks for all resources of a node: login, microversion, existence.
func (s *Server) with(f func(http.ResponseWriter, *http.Request, *Node)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.knows(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="Baremetal API"`)
			answer(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{
				"message": "The request you have made requires authentication.",
			}})
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		minor := 1
		if v := r.Header.Get("X-OpenStack-Ironic-API-Version"); v != "" {
			minor, _ = strconv.Atoi(strings.TrimPrefix(v, "1."))
		}
		if minor < s.cfg.Least || minor > s.cfg.Newest {
			text := fmt.Sprintf("Version 1.%d was requested but the minor version is not supported by this "+
				"service. The supported version range is: [1.%d, 1.%d].", minor, s.cfg.Least, s.cfg.Newest)
			body := encode(map[string]any{"code": 406, "title": "Not Acceptable", "description": text})
			answer(w, http.StatusNotAcceptable, map[string]any{"error_message": body})
			return
		}
		name := r.PathValue("node")
		n := s.find(name)
		if n == nil {
			fault(w, http.StatusNotFound, "Node %s could not be found.", name)
			return
		}
		if n.Silent {
			s.mu.Unlock()
			select {
			case <-r.Context().Done():
			case <-s.over: // a request with an unread body does not notice that it has ended
			}
			s.mu.Lock()
			return
		}
		if r.Method != http.MethodGet && s.faults.Errors > 0 {
			s.faults.Errors--
			fault(w, http.StatusInternalServerError, "Timed out waiting for a reply to message ID 1")
			return
		}
		if r.Method != http.MethodGet && s.faults.DropAnswers {
			f(httptest.NewRecorder(), r, n)
			panic(http.ErrAbortHandler)
		}
		f(w, r, n)
	}
}

func (s *Server) find(name string) *Node {
	if n := s.nodes[name]; n != nil {
		return n
	}
	for _, n := range s.nodes {
		if n.uuid == name {
			return n
		}
	}
	return nil
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if v != nil {
		_ = json.NewEncoder(w).Encode(v)
	}
}

// fault responds like Ironic: an object in a string in an object.
func fault(w http.ResponseWriter, status int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	body := encode(map[string]any{"faultcode": "Client", "faultstring": text, "debuginfo": nil})
	answer(w, status, map[string]any{"error_message": body})
}

func encode(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

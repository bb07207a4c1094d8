package server

import (
	"encoding/json"
	"log"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
	"github.com/holdfast-metal/holdfast/server/internal/diagnose"
	"github.com/holdfast-metal/holdfast/server/jsonapi"
)

// The limits of the HTTP listener (docs/security.md).
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
)

// HTTPHandler returns the handler of everything that is not gRPC. Each API adds its
// routes with their rules, and calls the gRPC methods of this process.
func (s *Server) HTTPHandler(apis ...func(m *auth.Mux, rpc grpc.ClientConnInterface)) *auth.Mux {
	m := s.cfg.Gate.NewMux()
	s.operations(m)
	for _, add := range apis {
		add(m, s.Local())
	}
	lost := jsonapi.Lost()
	m.Fallback("/", func(w http.ResponseWriter, r *http.Request, code int, err *auth.Error) {
		if r.URL.Path == "/" && r.Method == http.MethodGet {
			http.Redirect(w, r, "/ui/", http.StatusFound)
			return
		}
		if !strings.HasPrefix(r.URL.Path, "/api/") { // no client of the field APIs asks for it
			lost(w, r, code, err)
			return
		}
		s.answer(w, code, map[string]string{"detail": err.Message})
	})
	return m
}

// Local returns a connection to the services of this process, as the HTTP APIs use it.
func (s *Server) Local() grpc.ClientConnInterface { return httpjson.Conn(s.local) }

// HTTPServer returns an HTTP server with the limits that every listener must have. It
// logs its errors as warnings, and those of handshakes once a minute. Requests have no overall
// timeout, because some routes stream.
func (s *Server) HTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(&errorLines{log: s.peer.Log, seldom: rate.Sometimes{Interval: time.Minute}}, "", 0),
	}
}

// operations adds the routes for operators of the peer (docs/operating.md).
func (s *Server) operations(mux *auth.Mux) {
	mux.HandleFunc("GET /healthz", auth.Health(), nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n")) // an error means that the client has disconnected
	})
	mux.HandleFunc("GET /readyz", auth.Health(), nil, s.readyz)
	mux.HandleFunc("GET /version", auth.Health(), nil, func(w http.ResponseWriter, _ *http.Request) {
		s.answer(w, http.StatusOK, map[string]any{"version": s.cfg.Version, "go": runtime.Version()})
	})
	diagnose.Profiles(mux)
	metrics := promhttp.HandlerFor(s.cfg.Gatherer, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.peer.Log.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError,
	})
	mux.Handle("GET /metrics", auth.Least(holdfastv1.Role_VIEWER), nil, metrics)
}

// readiness is the response of /readyz (docs/operating.md).
type readiness struct {
	Role         string `json:"role"` // leader, follower, candidate
	Leader       string `json:"leader"`
	AppliedIndex uint64 `json:"applied_index"`
	Error        string `json:"error,omitempty"` // the reason if the peer is not ready
	Note         string `json:"note,omitempty"`  // a further remark for operators
}

// readyz responds with 503 if the peer cannot serve: it has no leader, does not vote yet, has not
// yet applied its log after a start, is shutting down, or its state machine has halted.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	leader, _, _ := s.node.Leader()
	r := readiness{Role: s.node.Role(), Leader: leader, AppliedIndex: s.peer.State.View().Index(), Note: s.cfg.Note()}
	code := http.StatusOK
	if err := s.ready(); err != nil {
		code, r.Error = http.StatusServiceUnavailable, err.Error()
	}
	s.answer(w, code, r)
}

// answer writes a JSON response.
func (s *Server) answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		s.peer.Log.Debug("cannot write the response", "error", err)
	}
}

package server

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// The limits of the HTTP listener (DESIGN §9).
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
)

// HTTPHandler serves what is not gRPC: each API adds its routes to the mux, from a file of its own.
func (s *Server) HTTPHandler() http.Handler {
	mux := http.NewServeMux()
	s.operations(mux)
	return mux
}

// HTTPServer makes a server with the limits that everything that listens must have. It logs its own
// troubles at warn level. Requests have no bound as a whole: some routes stream.
func (s *Server) HTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
}

// operations are the routes for those who run the peer (DESIGN §4).
func (s *Server) operations(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n")) // the client is gone: nobody to tell
	})
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		s.answer(w, http.StatusOK, map[string]any{"version": s.cfg.Version, "go": runtime.Version()})
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.cfg.Gatherer, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError,
	}))
}

// readiness is the answer of /readyz (DESIGN §8).
type readiness struct {
	Role         string `json:"role"` // leader, follower, candidate
	Leader       string `json:"leader"`
	AppliedIndex uint64 `json:"applied_index"`
	Error        string `json:"error,omitempty"` // why the peer is not ready
}

// readyz is 503 when the peer cannot serve: it knows no leader, gives no vote yet, is shutting down, or its state has stopped.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	leader, _, _ := s.node.Leader()
	r := readiness{Role: s.node.Role(), Leader: leader, AppliedIndex: s.state.View().Index()}
	code := http.StatusOK
	if err := s.ready(); err != nil {
		code, r.Error = http.StatusServiceUnavailable, err.Error()
	}
	s.answer(w, code, r)
}

// answer writes JSON.
func (s *Server) answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		s.log.Debug("write answer", "error", err)
	}
}

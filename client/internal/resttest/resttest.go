// Package resttest connects tests to http.Handlers without a network, also inside a
// synctest bubble.
//
// It simulates network failures: refused connections, missing responses and broken
// connections. Only tests import it.
package resttest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
)

// Network is an http.RoundTripper that routes each host to its handler. A host without a
// handler refuses connections. It is safe for concurrent use.
type Network struct {
	mu    sync.Mutex
	hosts map[string]http.Handler
	calls map[string]int
}

// Serve sets the handler of a host. If h is nil, the host refuses connections.
func (n *Network) Serve(host string, h http.HandlerFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts == nil {
		n.hosts, n.calls = make(map[string]http.Handler), make(map[string]int)
	}
	delete(n.hosts, host)
	if h != nil {
		n.hosts[host] = h
	}
}

// Calls returns the number of requests sent to a host, answered or not.
func (n *Network) Calls(host string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[host]
}

// RoundTrip implements http.RoundTripper.
func (n *Network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	h := n.hosts[r.URL.Host]
	if n.calls != nil {
		n.calls[r.URL.Host]++
	}
	n.mu.Unlock()
	if h == nil {
		return nil, fmt.Errorf("dial %s: %w", r.URL.Host, syscall.ECONNREFUSED)
	}
	w := httptest.NewRecorder()
	if err := serve(h, w, r.Clone(r.Context())); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	defer func() {
		switch v := recover(); {
		case v == http.ErrAbortHandler: //nolint:errorlint // the value of a panic, as in net/http
			err = fmt.Errorf("read: connection reset: %w", io.ErrUnexpectedEOF)
		case v != nil:
			panic(v)
		}
	}()
	r.RequestURI = r.URL.RequestURI()
	h.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return errors.Join(errors.New("no answer"), err)
	}
	return nil
}

// Silent never answers.
func Silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Torn closes the connection without a response.
func Torn(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// Answer returns a handler that always responds with one status and body.
func Answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

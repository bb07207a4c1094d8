// Package resttest lets tests reach http.Handlers without a network, also inside a synctest bubble.
//
// It owns the ways in which a network treats a request badly: nobody listens, no answer comes, the
// connection tears. It knows nothing of what is asked. Only tests import it.
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

// Network is an http.RoundTripper that takes each host to its handler. A host without one refuses
// connections. It is safe for concurrent use.
type Network struct {
	mu    sync.Mutex
	hosts map[string]http.Handler
	calls map[string]int
}

// Serve makes a host answer with h; nil makes it refuse connections.
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

// Calls is how many requests were sent to a host, answered or not.
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

// Silent takes a request and never answers.
func Silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Torn ends the connection instead of answering.
func Torn(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// Answer answers everything with one status and body.
func Answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

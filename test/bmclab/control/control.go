// Package control is the control interface of a Redfish service in another process: a test
// sets its quirks and reads what it has received.
//
// It uses HTTP on a unix socket, and must not depend on the tests' purpose.
package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// Seen is what a service has received since its start.
type Seen struct {
	Sessions int                  // open now
	Open     []string             // descriptions of the open sessions
	Logins   int                  // tried, successful or not
	Served   int                  // requests
	Reads    int                  // maximum at the same time
	Writes   int                  // maximum at the same time
	Effects  []redfishtest.Effect // accepted, in order
	On       map[string]bool      // the power of each system in memory, by id
}

// Handler serves the control interface of a service.
func Handler(s *redfishtest.Service) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /seen", func(w http.ResponseWriter, _ *http.Request) {
		seen := Seen{
			Sessions: s.Sessions(),
			Open:     s.Open(),
			Logins:   s.Logins(),
			Served:   s.Served(),
			Effects:  s.Effects(""),
			On:       map[string]bool{},
		}
		for _, id := range s.Systems() {
			seen.On[id] = s.Power(id)
		}
		seen.Reads, seen.Writes = s.Most()
		_ = json.NewEncoder(w).Encode(seen) // the client may be gone
	})
	mux.HandleFunc("PUT /quirks", func(w http.ResponseWriter, r *http.Request) {
		var q redfishtest.Quirks
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.Set(func(now *redfishtest.Quirks) { *now = q })
	})
	mux.HandleFunc("POST /sessions",
		func(_ http.ResponseWriter, r *http.Request) { s.OpenSession(r.URL.Query().Get("user")) })
	return mux
}

// Client is a test's client of a control interface.
type Client struct{ http *http.Client }

// Dial returns a client for the unix socket of a control interface.
func Dial(socket string) *Client {
	return &Client{&http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, // the service may be restarted
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

// Seen returns what the service has received.
func (c *Client) Seen(ctx context.Context) (seen Seen, err error) {
	err = c.do(ctx, http.MethodGet, "/seen", nil, &seen)
	return seen, err
}

// Quirks sets the quirks of the service, and removes all others. HangAfter counts from now.
func (c *Client) Quirks(ctx context.Context, q redfishtest.Quirks) error {
	return c.do(ctx, http.MethodPut, "/quirks", q, nil)
}

// OpenSession opens a session of another client with an account.
func (c *Client) OpenSession(ctx context.Context, user string) error {
	return c.do(ctx, http.MethodPost, "/sessions?user="+user, nil, nil)
}

func (c *Client) do(ctx context.Context, method, path string, body, answer any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://control"+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask the BMC: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("ask the BMC for %s: %s", path, res.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(answer)
}

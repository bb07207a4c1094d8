package ironiclab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// answering returns a client of a server that answers reads of a node with states in order,
// repeating the last one.
func answering(t *testing.T, states ...string) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			w.WriteHeader(http.StatusAccepted)
			return
		case r.Method == http.MethodPost && r.Header.Get("X-OpenStack-Ironic-API-Version") != madeAvailable:
			http.Error(w, "a node of today is enrolled first", http.StatusBadRequest)
			return
		}
		state := states[0]
		if len(states) > 1 {
			states = states[1:]
		}
		if state == "" {
			http.Error(w, "no such node", http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprintf(w, `{"uuid": "u", "provision_state": %q, "last_error": "why"}`, state)
	}))
	t.Cleanup(s.Close)
	c := NewClient(s.URL)
	t.Cleanup(c.Close)
	return c
}

func TestDeploy(t *testing.T) {
	for _, tt := range []struct {
		name   string
		states []string
		err    string
	}{
		{"at once", []string{"active"}, ""},
		{"after a while", []string{"deploying", "wait call-back", "deploying", "active"}, ""},
		{"failed", []string{"deploying", "deploy failed"}, `it is "deploy failed": want it active: why`},
		{"not begun", []string{"available"}, `it is "available"`},
		{"deleted node", []string{"deploying", ""}, "404 Not Found: no such node"},
	} {
		err := answering(t, tt.states...).Deploy(t.Context(), "u", time.Millisecond)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if err := answering(t, "deploying").Deploy(ctx, "u", time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("timeout: got %v", err)
	}
}

func TestMakeAvailable(t *testing.T) {
	if got, err := answering(t, "available").MakeAvailable(t.Context()); got != "u" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := answering(t, "enroll").MakeAvailable(t.Context()); err == nil ||
		!strings.Contains(err.Error(), `is "enroll"`) {
		t.Errorf("undeployable node: got %v", err)
	}
}

package specs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// writer is a client that writes to one endpoint, through one peer that survives.
type writer struct {
	w    *world
	http *http.Client
	via  atomic.Pointer[localcluster.Peer]

	mu   sync.Mutex
	done map[string]int // accepted calls, by endpoint
	bad  []string       // other answers
}

// call sends a request and returns the answer's body. An answer with another status than 200 or 201
// is noted. endpoint is the route, as the audit trail names it, or "" for a read.
func (c *writer) call(ctx context.Context, token, method, path, endpoint, body string) ([]byte, bool) {
	status, got, err := 0, []byte(nil), error(nil)
	req, err := http.NewRequestWithContext(ctx, method, c.via.Load().URL(path), strings.NewReader(body))
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+c.w.tokens[token])
		req.Header.Set("Content-Type", "application/json")
		var resp *http.Response
		if resp, err = c.http.Do(req); err == nil {
			status = resp.StatusCode
			got, err = io.ReadAll(resp.Body)
			err = errors.Join(err, resp.Body.Close())
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || status/100 != 2 {
		c.bad = append(c.bad, fmt.Sprintf("%s: %d %s %v", endpoint, status, bytes.TrimSpace(got), err))
		return nil, false
	}
	if endpoint != "" {
		c.done[endpoint]++
	}
	return got, true
}

// counts returns how often each endpoint has accepted a call.
func (c *writer) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.done)
}

// inFlight are the writes of the field APIs. Each function makes its n-th round of calls, with
// names that no other round has, and returns a mistake in their effects, or "".
var inFlight = map[string]func(ctx context.Context, c *writer, n int) string{ //nolint:gochecknoglobals // a table
	"machines": func(ctx context.Context, c *writer, n int) string {
		body := with(registration, "1165a9b6", fmt.Sprintf("flight-%d", n))
		c.call(ctx, "gpu", "POST", "/api/v1/machine/register", "POST /api/v1/machine/register", body)
		return ""
	},
	"pools": func(ctx context.Context, c *writer, _ int) string {
		c.call(ctx, "pool", "POST", "/v2/pools/register", "POST /v2/pools/register",
			`{"pool_id":"pool-1","endpoint":"http://10.0.0.1:9200","gpus":[{"id":0,"total_vram_gb":24}]}`)
		return ""
	},
	"providers": func(ctx context.Context, c *writer, n int) string {
		c.call(ctx, "operator", "POST", "/v2/platform/providers/register", "POST /v2/platform/providers/register",
			fmt.Sprintf(`{"provider_id":"p-%d","endpoint":"https://gpu.example.com"}`, n))
		return ""
	},
	"services": func(ctx context.Context, c *writer, n int) string {
		const base = "/api/v1/management/discovery"
		target := fmt.Sprintf(`"serviceName":"flight-%d","host":"10.0.0.1","port":9090,"serviceType":"tool-invoker"}`, n)
		got, ok := c.call(ctx, "service", "POST", base+"/register", "POST "+base+"/register", `{"id":null,`+target)
		var made struct{ Data struct{ ID string } }
		if !ok || json.Unmarshal(got, &made) != nil {
			return ""
		}
		id := made.Data.ID
		for i := range 3 {
			at := time.Unix(1_800_000_000+int64(i), 0).UTC().Format(time.RFC3339)
			c.call(ctx, "service", "POST", base+"/update/"+id, "POST "+base+"/update/{id}", `{"timestamp":"`+at+`","healthy":true,"reason":"r"}`)
		}
		c.call(ctx, "service", "POST", base+"/register", "POST "+base+"/register", fmt.Sprintf(`{"id":%q,`, id)+target)
		c.call(ctx, "service", "POST", base+"/deregister", "POST "+base+"/deregister", fmt.Sprintf(`{"id":%q,`, id)+target)
		return ""
	},
	"nodes": func(ctx context.Context, c *writer, n int) string {
		const base = "/api/v1/nodes"
		mac := fmt.Sprintf("02:00:00:%02x:%02x:%02x", n>>16, n>>8&255, n&255)
		got, ok := c.call(ctx, "operator", "POST", base, "POST "+base, `{"mac_address":"`+mac+`"}`)
		var made struct{ Data struct{ ID string } }
		if !ok || json.Unmarshal(got, &made) != nil {
			return ""
		}
		node := base + "/" + made.Data.ID
		report := func(status string) bool {
			_, ok := c.call(ctx, "operator", "POST", "/api/v1/report", "POST /api/v1/report",
				`{"mac_address":"`+mac+`","installation_status":"`+status+`","installation_error":"disk"}`)
			return ok
		}
		_, one := c.call(ctx, "operator", "PATCH", node, "PATCH "+base+"/{id}", `{"hostname":"h"}`)
		_, two := c.call(ctx, "operator", "POST", node+"/tags", "POST "+base+"/{id}/tags", `{"tag":"rack"}`)
		_, three := c.call(ctx, "operator", "PATCH", node+"/state", "PATCH "+base+"/{id}/state", `{"state":"pending"}`)
		if !one || !two || !three || !report("started") || !report("failed") || !report("failed") {
			return ""
		}
		got, ok = c.call(ctx, "operator", "GET", node, "", "")
		var now struct {
			Data struct {
				State    string
				Attempts int `json:"install_attempts"`
			}
		}
		if ok && (json.Unmarshal(got, &now) != nil || now.Data.Attempts != 2 || now.Data.State != "installing") {
			return fmt.Sprintf("node %s after two failures: got %s with %d, want installing with 2", made.Data.ID,
				now.Data.State, now.Data.Attempts)
		}
		report("complete")
		c.call(ctx, "operator", "DELETE", node, "DELETE "+base+"/{id}", "")
		return ""
	},
	"inventory": func(ctx context.Context, c *writer, n int) string {
		id := fmt.Sprintf("bare-%d", n)
		c.call(ctx, "operator", "POST", "/v1/machines", "POST /v1/machines", `{"machine_id":"`+id+`"}`)
		c.call(ctx, "operator", "DELETE", "/v1/machines/"+id, "DELETE /v1/machines/{machine_id}", "")
		return ""
	},
}

// TestWritesInFlight kills the leader while clients write to each endpoint of the field APIs
// through a follower. The follower answers every call with its outcome, and each write has its
// effect once.
func TestWritesInFlight(t *testing.T) {
	kills := 10
	if testing.Short() {
		kills = 2
	}
	w := start(t, 1)
	c := &writer{w: w, http: &http.Client{Transport: &http.Transport{TLSClientConfig: w.agentTLS()}},
		done: map[string]int{}}
	begin := w.audited(t)
	var round atomic.Int64
	for kill := range kills {
		w.waitReady(t)
		leader := w.leader(t)
		for _, p := range w.Peers() {
			if p != leader {
				c.via.Store(p)
			}
		}
		c.http.CloseIdleConnections()
		stop := make(chan struct{})
		var writers sync.WaitGroup
		for name, write := range inFlight {
			writers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
					if wrong := write(ctx, c, int(round.Add(1))); wrong != "" {
						t.Errorf("%s: %s", name, wrong)
					}
					cancel()
				}
			})
		}
		c.waitMore(t, "before the kill")
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		w.waitLeaderOtherThan(t, leader)
		c.waitMore(t, fmt.Sprintf("after kill %d", kill+1))
		close(stop)
		writers.Wait()
		if err := leader.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.waitReady(t)
	for _, text := range c.bad {
		t.Errorf("through a peer that never died: %s", text)
	}
	// The audit trail has each command that was applied.
	got := map[string]int{}
	for method, n := range w.audited(t) {
		if n -= begin[method]; n > 0 {
			got[method] = n
		}
	}
	if diff := cmp.Diff(c.counts(), got); diff != "" {
		t.Errorf("applied commands by method (-accepted calls +applied):\n%s", diff)
	}
}

// endpoints is the number of endpoints that inFlight writes to.
const endpoints = 14

// waitMore waits until each endpoint has accepted another call.
func (c *writer) waitMore(t *testing.T, when string) {
	t.Helper()
	before := c.counts()
	until(t, "more accepted calls of each endpoint "+when, func(context.Context) error {
		now := c.counts()
		if len(now) < endpoints {
			return fmt.Errorf("only %d endpoints", len(now))
		}
		for endpoint, n := range now {
			if n <= before[endpoint] {
				return fmt.Errorf("none of %s", endpoint)
			}
		}
		return nil
	})
}

// audited returns the number of accepted calls in the audit trail, by method.
func (w *world) audited(t *testing.T) map[string]int {
	t.Helper()
	all := map[string]int{}
	until(t, "read the audit trail", func(ctx context.Context) error {
		clear(all)
		req := &holdfastv1.ListAuditEventsRequest{Filter: `outcome = "OK"`, PageSize: 1000}
		for {
			resp, err := holdfastv1.NewAuditServiceClient(w.conn).ListAuditEvents(ctx, req)
			if err != nil {
				return err
			}
			for _, e := range resp.GetEvents() {
				all[e.GetMethod()]++
			}
			if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
				return nil
			}
		}
	})
	return all
}

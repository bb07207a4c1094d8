package specs_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
)

// notified reads events from a peer's stream, after an id if one is given, until the service named
// last appears. It returns their kinds and names, and the last id.
func (w *world) notified(t *testing.T, p *localcluster.Peer, from, last string) (events []string, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", p.URL("/api/v1/capabilities/notifications"), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.tokens["viewer"])
	if from != "" {
		req.Header.Set("Last-Event-ID", from)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: w.agentTLS(), DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("notifications of %s from %q: %s", p.ID, from, resp.Status)
	}
	kind, seen := "", false
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			_, rest, _ := strings.Cut(value, `"serviceName":"`)
			service, _, _ := strings.Cut(rest, `"`)
			if strings.HasPrefix(service, "watched-") {
				events = append(events, kind+" "+service)
			}
			if seen = seen || service == last; seen && id != "" { // the current state has one id, at its end
				return events, id
			}
		}
	}
	t.Fatalf("notifications of %s from %q: ended before %s: %v", p.ID, from, last, events)
	return nil, ""
}

// notifications checks that a client that continues the stream of the discovery API at another
// peer, with the last id, gets each event once.
func notifications(t *testing.T, w *world) {
	register := func(n int) string {
		name := fmt.Sprintf("watched-%d", n)
		w.run(t, []example{{name, "service", "POST", "/api/v1/management/discovery/register",
			fmt.Sprintf(`{"id":"00000000-0000-4000-8000-%012d","serviceName":%q,"host":"10.0.0.1","port":9090,"serviceType":"tool-invoker"}`, n, name), 200, "*"}})
		return "register " + name
	}
	var want, got []string
	id := ""
	for n := range 6 {
		want = append(want, register(n))
		var events []string
		events, id = w.notified(t, w.Peers()[n%len(w.Peers())], id, fmt.Sprintf("watched-%d", n))
		got = append(got, events...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events of one client at three peers (-want +got):\n%s", diff)
	}
}

package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/program"
)

const patience = 5 * time.Minute

// message is a received message.
type message struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Subject  string `json:"subject"`
	Sequence string `json:"sequence"`
}

// receiver accepts messages, but refuses every fifteenth, which must be sent again.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	asked int
	took  []message
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var m message
		if err == nil {
			err = json.Unmarshal(body, &m)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.asked++; err != nil || r.asked%15 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.took = append(r.took, m)
	}))
	t.Cleanup(r.Close)
	return r
}

// received returns the messages without repetitions, in the order of first arrival.
func (r *receiver) received() []message {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	var all []message
	for _, m := range r.took {
		if !seen[m.ID] {
			seen[m.ID] = true
			all = append(all, m)
		}
	}
	return all
}

func TestEventsSurviveLeaderCrash(t *testing.T) {
	dir := t.TempDir()
	binary := program.Holdfast(t)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	c, err := localcluster.Start(ctx, localcluster.Config{Binary: binary, Dir: filepath.Join(dir, "cluster"),
		RaftMultiplier: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range c.Peers() {
				t.Logf("log of %s:\n%s", p.ID, p.LogTail(3000))
			}
		}
		_ = c.Close()
	})
	api, err := client.Dial(client.Config{Addrs: c.Addrs(), TLS: c.TLS(), Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })

	hook := newReceiver(t)
	if _, err := api.Webhooks().PutWebhook(ctx,
		&holdfastv1.PutWebhookRequest{Webhook: &holdfastv1.Webhook{Name: "h", Url: hook.URL,
			Filter: `type = "machine.phase"`}}); err != nil {
		t.Fatal(err)
	}
	watching, cancel := context.WithCancel(ctx)
	events, begun := make(chan *holdfastv1.Event, 1000), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- api.WatchEvents(watching, `type = "machine.phase"`, 0, func(e *holdfastv1.Event) error {
			if e.GetType() == "" {
				select {
				case <-begun:
				default:
					close(begun)
				}
				return nil
			}
			events <- e
			return nil
		})
	}()
	select {
	case <-begun:
	case <-ctx.Done():
		t.Fatal("wait for the watch to begin: timed out")
	}

	const machines = 40
	var want []string
	for i := range machines {
		id := fmt.Sprintf("m-%02d", i)
		want = append(want, id)
		if _, err := api.Machines().RegisterMachine(ctx,
			&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: id}}); err != nil {
			t.Fatal(err)
		}
		if i == machines/2 {
			leader, err := c.Leader(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := leader.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}

	var watched []string
	for len(watched) < machines {
		select {
		case e := <-events:
			watched = append(watched, e.GetMachineId())
		case <-ctx.Done():
			t.Fatalf("watch: got %v, want %d machines", watched, machines)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) && err != nil {
		t.Errorf("watch: %v", err)
	}
	if !slices.Equal(watched, want) {
		t.Errorf("watch: got %v, want each machine once and in order", watched)
	}

	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(hook.received()) < machines {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("webhook: got %d machines, want %d", len(hook.received()), machines)
		}
	}
	var got []string
	last := ""
	for _, m := range hook.received() {
		got = append(got, m.Subject[len("machines/"):])
		if m.Sequence <= last {
			t.Errorf("webhook: got sequence %s after %s", m.Sequence, last)
		}
		last = m.Sequence
	}
	if !slices.Equal(got, want) {
		t.Errorf("webhook: got %v, want each machine in order", got)
	}
	t.Logf("%d messages for %d events", len(hook.took), machines)
}

package redfish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// note is the replicated record of sessions.
type note struct {
	mu   sync.Mutex
	path string
	debt Debt
}

// peer is one leader in a world of slow networks. It dies at some moment: then it notes nothing,
// and its requests on the way still arrive.
type peer struct {
	*note
	host    string
	service *redfishtest.Service
	rng     *rand.Rand
	late    time.Duration // longest time that a request or an answer is on the way
	dead    context.Context
	mine    sync.Mutex
}

var errDead = errors.New("peer is dead")

func (p *peer) Begin(_ context.Context, l Login) (string, Debt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	path, d := p.path, p.debt
	if p.dead.Err() != nil {
		return "", d, errDead
	}
	p.debt = d.Add(l)
	return path, d, nil
}

func (p *peer) Noted(_ context.Context, path string, d Debt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead.Err() == nil {
		p.path, p.debt = path, d
	}
}

func (p *peer) Ended(_ context.Context, path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead.Err() == nil && p.path == path {
		p.path = ""
	}
}

func (p *peer) takes() time.Duration {
	p.mine.Lock()
	defer p.mine.Unlock()
	return time.Duration(p.rng.Int64N(int64(p.late)))
}

// conn is a connection of which only the address is used.
type conn struct {
	net.Conn
	host string
}

func (c conn) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.host), Port: 1} }

// RoundTrip carries a request to the service, even if its sender has given up.
func (p *peer) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.dead.Err() != nil {
		return nil, errDead
	}
	httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{Conn: conn{host: p.host}})
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	sent := r.Clone(context.WithoutCancel(r.Context()))
	sent.Body, sent.RemoteAddr = io.NopCloser(bytes.NewReader(body)), p.host+":1"
	answered := make(chan *http.Response, 1)
	there, back := p.takes(), p.takes()
	go func() {
		time.Sleep(there) // sleep: fake clock
		w := httptest.NewRecorder()
		p.service.Handler().ServeHTTP(w, sent)
		time.Sleep(back) // sleep: fake clock
		answered <- w.Result()
	}()
	select {
	case res := <-answered:
		return res, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-p.dead.Done():
		return nil, errDead
	}
}

func (p *peer) client() *Client {
	return New(Config{
		BMC: access.BMC{
			Gate: access.NewGate(),
			Account: func(context.Context) (access.Account, error) {
				return access.Account{User: "admin", Password: "secret"}, nil
			},
			Logins: access.NewLogins(func(int, string) {}),
		},
		Base: "http://bmc", HTTP: &http.Client{Transport: p}, Timeout: 4 * time.Second, Record: p, Now: time.Now,
	})
}

// lead reads from the BMC now and then, and ends unused sessions, until the peer is dead.
func (p *peer) lead(c *Client) {
	for p.dead.Err() == nil { // one request at a time: a bubble's time stops while one waits for a mutex
		_, _ = c.do(p.dead, request{method: http.MethodGet, path: "/redfish/v1/Systems/1"})
		_ = c.Idle(p.dead, 3*time.Second)
		select {
		case <-time.After(2 * p.takes()):
		case <-p.dead.Done():
		}
	}
	c.work.Wait()
}

// However leaders die, and however late requests arrive and answers come, the last leader ends
// every session that was opened. A session of another program with the same account stays.
func TestEverySessionIsEnded(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 0))
				s := redfishtest.New(redfishtest.Config{})
				t.Cleanup(s.Close)
				s.OpenSession("admin") // no address of ours
				var n note
				for range 1 + rng.IntN(4) {
					late := []time.Duration{20 * time.Millisecond, 2 * time.Second, 5 * time.Second}[rng.IntN(3)]
					life := time.Duration(rng.Int64N(int64(10 * time.Second)))
					dead, kill := context.WithTimeout(t.Context(), life)
					p := &peer{note: &n, host: fmt.Sprintf("10.0.0.%d", 1+rng.IntN(3)), service: s, late: late, dead: dead,
						rng: rand.New(rand.NewPCG(seed, rng.Uint64()))}
					p.lead(p.client())
					kill()
				}
				last := &peer{note: &n, host: "10.0.0.9", service: s, dead: t.Context(),
					late: 20*time.Millisecond + time.Duration(seed%2)*1950*time.Millisecond,
					rng:  rand.New(rand.NewPCG(seed, rng.Uint64()))}
				c := last.client()
				for range 3 {
					if _, err := c.do(t.Context(), request{method: http.MethodGet, path: "/redfish/v1/Systems/1"}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(4 * time.Second) // sleep: fake clock
					if err := c.Idle(t.Context(), 3*time.Second); err != nil {
						t.Fatal(err)
					}
					time.Sleep(23 * time.Second) // sleep: fake clock
				}
				if got := s.Sessions(); got != 1 {
					t.Errorf("got %d sessions, want only that of another program", got)
				}
				if n.path != "" || !n.debt.none() {
					t.Errorf("got a record of session %q and %+v, want none", n.path, n.debt)
				}
			})
		})
	}
}

// The BMC may have created our own session at any time between the request and the answer.
func TestSessionOfLogin(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	l := Login{First: first, Until: first.Add(20 * time.Second)}
	for name, tt := range map[string]struct {
		made, took, since time.Duration // since the begin of l, and of our own session
		want              bool
	}{
		"at once":                           {time.Minute, 0, -time.Minute, true},
		"at once, and our login was slow":   {time.Minute, 8 * time.Second, -68 * time.Second, true},
		"within the login":                  {time.Minute, 0, -45 * time.Second, true},
		"late":                              {time.Minute, 0, -15 * time.Second, true},
		"before it":                         {time.Minute, 0, -63 * time.Second, false},
		"long after it":                     {time.Hour, 0, -time.Minute, false},
		"long after it, our login was slow": {time.Hour, 8 * time.Second, -time.Minute, false},
	} {
		s := &session{made: first.Add(tt.made), answered: first.Add(tt.made + tt.took)}
		if got := s.mayBeOf(l, tt.since); got != tt.want {
			t.Errorf("%s: got %t, want %t", name, got, tt.want)
		}
	}
}

package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/internal/bench/load"
)

const (
	// of a member whose every server has failed, then twice as long each time, as real ones do
	// (docs/clients.md)
	firstBackoff = time.Second
	lastBackoff  = 30 * time.Second
	leastWait    = 500 * time.Millisecond // between two heartbeats, whatever the server says
)

// kind is members of one kind: how they make themselves known, and how they say that they live.
type kind struct {
	name     string // agents, services, pools
	register func(i int, host string) []byte
	beat     func(i int, host string) []byte
	leave    func(i int, host string) []byte // nil: they have no way to sign off
	// gone reports whether an answer to a beat means that the server does not know the member any
	// more.
	gone func(status int, answer []byte) bool
	// every is the time between two beats where the server says nothing of it.
	every time.Duration

	members []member
	seen    seen
}

// member is what one of them remembers, in three bytes: there may be a million.
type member struct {
	known bool  // it has registered
	peer  uint8 // it stays with one that answers
	fails uint8 // tries in a row
}

// seen is what the members of a kind have seen.
type seen struct {
	// late: from when a call was due until it was made, which is the simulator's own doing
	registered, beats, late load.Histogram

	mu       sync.Mutex
	forgot   int64            // a member that the server did not know any more
	failures map[string]int64 // tries, by what came back
}

// call makes a member's next call and says how long after it was due the next one is.
func (k *kind) call(ctx context.Context, peers []*load.Wires, i int, due time.Time) time.Duration {
	m := &k.members[i]
	p := peers[int(m.peer)%len(peers)]
	request, took := k.register, &k.seen.registered
	if m.known {
		request, took = k.beat, &k.seen.beats
	}
	k.seen.late.Add(max(time.Since(due), 0))
	status, answer, err := p.Post(ctx, request(i, p.Addr))
	since := time.Since(due)
	switch {
	case err == nil && status == http.StatusOK:
		took.Add(since)
		m.fails = 0
		if !m.known {
			m.known = true
			return since // the first heartbeat follows at once
		}
		return max(since, k.wait(answer))
	case err == nil && m.known && k.gone(status, answer):
		m.known = false
		k.seen.mu.Lock()
		k.seen.forgot++
		k.seen.mu.Unlock()
		return since
	}
	k.seen.fail(status, err)
	m.peer = uint8((int(m.peer) + 1) % len(peers))
	m.fails = min(m.fails+1, 200)
	if int(m.fails)%len(peers) != 0 {
		return since
	}
	return since + backoff(int(m.fails)/len(peers))
}

// wait is until the next heartbeat: what the server wants, shortened by up to a tenth by chance.
func (k *kind) wait(answer []byte) time.Duration {
	every := k.every
	var a struct {
		Keepalive int64 `json:"next_keepalive_ms"`
		Heartbeat int64 `json:"next_heartbeat_ms"`
	}
	if len(answer) > 0 && json.Unmarshal(answer, &a) == nil && a.Keepalive+a.Heartbeat > 0 {
		every = time.Duration(a.Keepalive+a.Heartbeat) * time.Millisecond
	}
	return max(every-rand.N(every/10+1), leastWait) //nolint:gosec // no secret
}

// backoff is how long who has asked all peers so many times waits.
func backoff(rounds int) time.Duration {
	d := lastBackoff
	if rounds < 6 {
		d = min(firstBackoff<<(rounds-1), lastBackoff)
	}
	return d/2 + rand.N(d/2) //nolint:gosec // no secret
}

// fail counts a try that was of no use.
func (s *seen) fail(status int, err error) {
	what := "no answer"
	if err == nil {
		what = strconv.Itoa(status)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures == nil {
		s.failures = map[string]int64{}
	}
	s.failures[what]++
}

// agents are machines that report for themselves (spec 000), dealt out to the pools.
func agents(o *Options, pools []poolToken) *kind {
	one := func(i int) load.Agent {
		p := pools[i%len(pools)]
		return load.Agent{ID: fmt.Sprintf("%s-agent-%07d", o.Prefix, i), Token: p.token, Pool: p.name}
	}
	return &kind{
		name: "agents", every: time.Minute, members: make([]member, o.Agents),
		register: func(i int, host string) []byte { return one(i).Register(nil, host) },
		beat:     func(i int, host string) []byte { return one(i).Keepalive(nil, host) },
		gone: func(_ int, answer []byte) bool { // docs/clients.md: the status alone decides nothing
			var a struct {
				Code string `json:"error_code"`
			}
			return json.Unmarshal(answer, &a) == nil && a.Code == "machine_not_found"
		},
	}
}

// services register with the discovery API and ping (spec 003). Their ids are theirs, so that
// nothing has to be remembered.
func services(o *Options, tokens []string) *kind {
	id := func(i int) string { return fmt.Sprintf("%08x-5157-4000-8000-%012x", o.run, i) }
	return &kind{
		name: "services", every: o.Ping, members: make([]member, o.Services),
		register: func(i int, host string) []byte {
			body := fmt.Appendf(nil, `{"id":%q,"serviceName":"%s-service-%d","host":"10.%d.%d.%d","port":9090,"serviceType":"tool-invoker","serviceSubType":"http","languageName":null,"languageType":null,"languageSubType":null}`,
				id(i), o.Prefix, i, i>>16&0xff, i>>8&0xff, i&0xff)
			return load.Request(nil, host, "/api/v1/management/discovery/register", tokens[i%len(tokens)], body)
		},
		beat: func(i int, host string) []byte {
			return load.Request(nil, host, "/api/v1/management/discovery/ping", tokens[i%len(tokens)], []byte(id(i)))
		},
		leave: func(i int, host string) []byte {
			return load.Request(nil, host, "/api/v1/management/discovery/deregister", tokens[i%len(tokens)],
				fmt.Appendf(nil, `{"id":%q}`, id(i)))
		},
		gone: func(status int, _ []byte) bool { return status == http.StatusNotFound },
	}
}

// managers are pool managers (spec 001).
func managers(o *Options, pools []poolToken) *kind {
	body := func(i int) []byte {
		return fmt.Appendf(nil, `{"pool_id":%q,"endpoint":"http://10.1.%d.%d:8080","node_id":"n-%d","region":"sim","version":"load-1","gpus":[{"id":0,"model":"H100","total_vram_gb":80,"available_vram_gb":%d,"workers":[]}],"workers_total":8,"workers_ready":%d,"workers_busy":0,"uptime_seconds":1}`,
			pools[i].name, i>>8&0xff, i&0xff, i, rand.IntN(81), rand.IntN(9)) //nolint:gosec // no secret
	}
	return &kind{
		name: "pools", every: 10 * time.Second, members: make([]member, o.Pools),
		register: func(i int, host string) []byte {
			return load.Request(nil, host, "/v2/pools/register", pools[i].token, body(i))
		},
		beat: func(i int, host string) []byte {
			return load.Request(nil, host, "/v2/pools/"+pools[i].name+"/heartbeat", pools[i].token, body(i))
		},
		leave: func(i int, host string) []byte {
			return load.Request(nil, host, "/v2/pools/"+pools[i].name+"/deregister", pools[i].token,
				fmt.Appendf(nil, `{"pool_id":%q,"reason":"the simulation has ended"}`, pools[i].name))
		},
		gone: func(status int, answer []byte) bool {
			var a struct {
				Error string `json:"error"`
			}
			return status == http.StatusNotFound && json.Unmarshal(answer, &a) == nil && a.Error == "pool_not_found"
		},
	}
}

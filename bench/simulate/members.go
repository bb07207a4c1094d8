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

	"github.com/holdfast-metal/holdfast/bench/load"
)

const (
	// after all servers of a member have failed; doubled each time, as real clients do
	// (docs/clients.md)
	firstBackoff = time.Second
	lastBackoff  = 30 * time.Second
	leastWait    = 500 * time.Millisecond // minimum time between two heartbeats, whatever the server requests
)

// kind describes the members of one kind: their registration and their heartbeats.
type kind struct {
	name      string // agents, services, pools
	register  func(i int, host string) []byte
	heartbeat func(i int, host string) []byte
	leave     func(i int, host string) []byte // nil: they cannot deregister
	// gone reports whether the response to a heartbeat means that the member is not registered any
	// more.
	gone func(status int, answer []byte) bool
	// every is the time between two heartbeats if the server requests none.
	every time.Duration

	members []member
	seen    seen
}

// member is the state of one member, in three bytes: there may be a million.
type member struct {
	known bool  // it is registered
	peer  uint8 // used until it fails
	fails uint8 // consecutive failed tries
}

// seen holds the observations of the members of a kind.
type seen struct {
	// late is the delay from the due time of a call to its begin, which the simulator causes
	registered, heartbeats, late load.Histogram

	mu       sync.Mutex
	forgot   int64            // heartbeats of members that were not registered any more
	failures map[string]int64 // failed tries, by response
}

// call makes the next call of a member and returns the time from its due time to the next one.
func (k *kind) call(ctx context.Context, peers []*load.Wires, i int, due time.Time) time.Duration {
	m := &k.members[i]
	p := peers[int(m.peer)%len(peers)]
	request, took := k.register, &k.seen.registered
	if m.known {
		request, took = k.heartbeat, &k.seen.heartbeats
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
			return since // the first heartbeat follows immediately
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

// wait returns the time until the next heartbeat: the interval that the server requests, less up
// to a tenth as jitter.
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

// backoff returns the pause after a number of rounds in which all peers failed.
func backoff(rounds int) time.Duration {
	d := lastBackoff
	if rounds < 6 {
		d = min(firstBackoff<<(rounds-1), lastBackoff)
	}
	return d/2 + rand.N(d/2) //nolint:gosec // no secret
}

// fail counts a failed try.
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

// agents returns the kind of machine agents (spec 000), distributed among the pools.
func agents(o *Options, pools []poolToken) *kind {
	one := func(i int) load.Agent {
		p := pools[i%len(pools)]
		return load.Agent{ID: fmt.Sprintf("%s-agent-%07d", o.Prefix, i), Token: p.token, Pool: p.name}
	}
	return &kind{
		name: "agents", every: time.Minute, members: make([]member, o.Agents),
		register:  func(i int, host string) []byte { return one(i).Register(nil, host) },
		heartbeat: func(i int, host string) []byte { return one(i).Keepalive(nil, host) },
		gone: func(_ int, answer []byte) bool { // docs/clients.md: the status alone is not enough
			var a struct {
				Code string `json:"error_code"`
			}
			return json.Unmarshal(answer, &a) == nil && a.Code == "machine_not_found"
		},
	}
}

// services returns the kind of services, which register and ping (spec 003). Their ids are
// computed, so that they need no memory.
func services(o *Options, tokens []string) *kind {
	id := func(i int) string { return fmt.Sprintf("%08x-5157-4000-8000-%012x", o.run, i) }
	return &kind{
		name: "services", every: o.Ping, members: make([]member, o.Services),
		register: func(i int, host string) []byte {
			body := fmt.Appendf(nil, `{"id":%q,"serviceName":"%s-service-%d","host":"10.%d.%d.%d","port":9090,"serviceType":"tool-invoker","serviceSubType":"http","languageName":null,"languageType":null,"languageSubType":null}`,
				id(i), o.Prefix, i, i>>16&0xff, i>>8&0xff, i&0xff)
			return load.Request(nil, host, "/api/v1/management/discovery/register", tokens[i%len(tokens)], body)
		},
		heartbeat: func(i int, host string) []byte {
			return load.Request(nil, host, "/api/v1/management/discovery/ping", tokens[i%len(tokens)], []byte(id(i)))
		},
		leave: func(i int, host string) []byte {
			return load.Request(nil, host, "/api/v1/management/discovery/deregister", tokens[i%len(tokens)],
				fmt.Appendf(nil, `{"id":%q}`, id(i)))
		},
		gone: func(status int, _ []byte) bool { return status == http.StatusNotFound },
	}
}

// managers returns the kind of pool managers (spec 001).
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
		heartbeat: func(i int, host string) []byte {
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

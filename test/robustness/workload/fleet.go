package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Numbers of clients of leases. Every second one of each kind is never stopped.
const (
	agents       = 16
	processes    = 3 // of holdfast-agent
	poolManagers = 5
	services     = 6
)

// fleet is the clients of leases: agents, pool managers and services of the SDK, and real
// agents.
type fleet struct {
	w            *Workload
	dir          string
	tokens       map[string]string // secrets of the credentials, by purpose; "service-id" is a client id
	all          []*holder
	observations observations

	mu        sync.Mutex
	disturbed [][2]time.Time
	noQuorum  []Span
	last      []Observation
	lastAt    time.Duration // when the read of last began

	running sync.WaitGroup
	servers []*http.Server     // listeners of processes
	stop    context.CancelFunc // of the holders: they outlive the traffic; nil before start
}

func newFleet(w *Workload) *fleet { return &fleet{w: w, tokens: map[string]string{}} }

func (f *fleet) names() names {
	return names{pool: f.w.prefix + "-agents", region: f.w.prefix, host: f.w.prefix + ".fleet"}
}

// prepare returns an operator's preparations: a pool, and credentials.
func (f *fleet) prepare() []func(context.Context, peer) error {
	todo := []func(context.Context, peer) error{func(ctx context.Context, at peer) error {
		_, err := at.pools.CreatePool(ctx,
			&holdfastv1.CreatePoolRequest{Pool: &holdfastv1.Pool{PoolId: f.names().pool}})
		return err
	}}
	token := func(name string, role holdfastv1.Role_Value, pools ...string) {
		todo = append(todo, func(ctx context.Context, at peer) error {
			made, err := at.access.CreateToken(ctx,
				&holdfastv1.CreateTokenRequest{Name: f.w.prefix + "-" + name, Role: role, Pools: pools})
			if err == nil {
				f.tokens[name], f.tokens[name+"-id"] = made.GetSecret(), made.GetToken().GetTokenId()
			}
			return err
		})
	}
	token("agent", holdfastv1.Role_POOL_AGENT, f.names().pool)
	token("service", holdfastv1.Role_SERVICE)
	for i := range poolManagers {
		token(f.poolName(i), holdfastv1.Role_POOL_AGENT, f.poolName(i))
	}
	return todo
}

func (f *fleet) poolName(i int) string { return fmt.Sprintf("%s-pool-%d", f.w.prefix, i) }

// start starts all clients. Some come and go until traffic ends. Then they keep their state
// until finish.
func (f *fleet) start(traffic context.Context) error {
	var err error
	if f.dir, err = os.MkdirTemp("", "holdfast-fleet-"); err != nil {
		return fmt.Errorf("create a directory for the fleet: %w", err)
	}
	for i := range agents {
		f.add(Machine, fmt.Sprintf("%s-agent-%d", f.w.prefix, i), i, f.agent)
	}
	for i := range poolManagers {
		f.add(Pool, f.poolName(i), i, f.poolManager)
	}
	for i := range services {
		f.add(Service, fmt.Sprintf("%s-service-%d", f.w.prefix, i), i, f.service)
	}
	if f.w.cfg.Agent != "" {
		for i := range processes {
			h := f.add(Machine, fmt.Sprintf("%s-process-%d", f.w.prefix, i), i, f.process)
			h.isProcess = true
		}
	}
	life, stop := context.WithCancel(context.WithoutCancel(traffic))
	f.stop = stop
	for _, h := range f.all {
		if h.isProcess {
			if err := h.listen(); err != nil {
				return err
			}
		}
	}
	for i, h := range f.all {
		rng := f.w.rng(5000 + i)
		f.running.Go(func() { h.live(life, traffic, rng) })
	}
	f.running.Go(func() { f.listen(life) })
	for i := range 2 {
		f.running.Go(func() { f.poll(life, i) })
	}
	return nil
}

func (f *fleet) add(kind Holder, name string, i int, starter func(*holder) (incarnation, error)) *holder {
	h := &holder{fleet: f, kind: kind, name: name, number: i, steady: i%2 == 0, starter: starter,
		ttl: f.w.cfg.Leases[kind].TTL,
		dir: filepath.Join(f.dir, name), tap: newTap(f.w.target, f.w.rec)}
	f.all = append(f.all, h)
	return h
}

// listen records when there are too few peers for a leader.
func (f *fleet) listen(ctx context.Context) {
	if f.w.target.Running == nil {
		return
	}
	since, until := time.Duration(-1), time.Duration(0)
	for wait.Sleep(ctx, 10*time.Millisecond) == nil {
		// The time between two checks with that result counts: a peer does not come and go
		// within a moment.
		now := f.w.rec.Since()
		noQuorum := f.w.target.Running() <= len(f.w.target.Addrs)/2
		if since >= 0 && (!noQuorum || now-until > 200*time.Millisecond) {
			f.addNoQuorum(Span{since, until})
			since = -1
		}
		if noQuorum {
			until = now
			if since < 0 {
				since = f.w.rec.Since()
			}
		}
	}
}

func (f *fleet) addNoQuorum(s Span) {
	if s.To <= s.From {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noQuorum = append(f.noQuorum, s)
}

// Disturbed records that something is broken until the returned function is called.
func (w *Workload) Disturbed() (over func()) {
	began := time.Now()
	return func() {
		w.fleet.mu.Lock()
		defer w.fleet.mu.Unlock()
		w.fleet.disturbed = append(w.fleet.disturbed, [2]time.Time{began, time.Now()})
	}
}

// longest bounds finish's wait for losses. Longer rounds cover longer losses.
const longest = 45 * time.Second

// finish kills half of the running clients, waits until these and all stopped before are
// lost, reads the state of all, and stops the rest. The traffic has ended, and no fault is
// active.
func (f *fleet) finish(ctx context.Context) error {
	defer f.close()
	began := time.Now()
	var due []*holder
	most := time.Duration(0)
	for i, h := range f.all {
		if terms := f.w.cfg.Leases[h.kind]; terms.Max < longest {
			if i%4 >= 2 {
				h.kill()
			}
			if h.killed() {
				due, most = append(due, h), max(most, terms.Max)
			}
		}
	}
	// A peer may still work on a request. The checks cover clients that are not lost by
	// then.
	patience, stop := context.WithTimeout(ctx, most+held)
	defer stop()
	for {
		at := f.w.rec.Since()
		last, err := f.w.rec.observeAll(patience, f.names())
		if err == nil {
			f.mu.Lock()
			f.last, f.lastAt = last, at
			f.mu.Unlock()
			if allLost(due, last) {
				f.w.target.Log.Info("all stopped clients are lost",
					"clients", len(due), "after", time.Since(began).Round(time.Millisecond))
				return nil
			}
		}
		if wait.Sleep(patience, 200*time.Millisecond) != nil {
			if f.seen().Last == nil {
				return fmt.Errorf("read the fleet: %w", errors.Join(err, ctx.Err()))
			}
			return nil
		}
	}
}

// close stops everything.
func (f *fleet) close() {
	if f.stop == nil {
		return
	}
	f.stop()
	for _, s := range f.servers {
		_ = s.Close()
	}
	f.running.Wait()
	_ = os.RemoveAll(f.dir)
}

// held bounds how long a peer works on a request after its client is gone.
const held = 10 * time.Second

func allLost(due []*holder, last []Observation) bool {
	state := map[string]Condition{}
	for _, s := range last {
		state[s.ID] = s.State
	}
	for _, h := range due {
		for _, id := range h.life().IDs() {
			if state[id] == Up {
				return false
			}
		}
	}
	return true
}

// seen returns the history of the fleet.
func (f *fleet) seen() *Fleet {
	all := &Fleet{LeaseTimes: f.w.cfg.Leases, Observations: f.observations.seen()}
	for _, h := range f.all {
		all.Clients = append(all.Clients, h.life())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	all.Last, all.LastAt, all.NoQuorum = f.last, f.lastAt, slices.Clone(f.noQuorum)
	for _, u := range f.disturbed {
		all.Disturbed = append(all.Disturbed, Span{u[0].Sub(f.w.rec.base), u[1].Sub(f.w.rec.base)})
	}
	slices.SortFunc(all.Disturbed, func(a, b Span) int { return int(a.From - b.From) })
	return all
}

// call makes a call with a timeout.
func call[Req, Resp any](
	ctx context.Context, do func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req,
) (Resp, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return do(ctx, req)
}

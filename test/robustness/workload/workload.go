package workload

import (
	"context"
	crand "crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/robustness/site"
)

// Target is the cluster under traffic.
type Target struct {
	Addrs   []string // gRPC address of each peer
	IDs     []string // id of each peer, in the same order
	FakeURL string   // of the fake hardware, e.g. "http://127.0.0.1:7450"
	Log     *slog.Logger
	// Creds are those of an admin, PeerCreds those of a peer.
	Creds, PeerCreds credentials.TransportCredentials
	URLs             []string    // HTTP address of each peer, in the same order, e.g. "https://127.0.0.1:7401"
	TLS              *tls.Config // for clients that have a token and no certificate
	Site             *site.Site  // BMCs and hosts that are not fake; nil: none
	Running          func() int  // returns the number of peers with a process; nil if unknown
}

// TargetOf returns the peers and the hardware of a local cluster.
func TargetOf(c *localcluster.Cluster, fakeURL string) Target {
	t := Target{Addrs: c.Addrs(), FakeURL: fakeURL, Creds: c.Credentials(), PeerCreds: c.PeerCredentials(c.Peers()[0])}
	for _, p := range c.Peers() {
		t.IDs, t.URLs = append(t.IDs, p.ID), append(t.URLs, p.URL(""))
	}
	if t.TLS = c.TLS(); t.TLS != nil {
		t.TLS.Certificates, t.TLS.GetClientCertificate = nil, nil
	}
	t.Running = func() int {
		n := 0
		for _, p := range c.Peers() {
			if p.Running() {
				n++
			}
		}
		return n
	}
	return t
}

// Config configures a workload. Zero values select the defaults.
type Config struct {
	Seed     int64 // of all decisions
	Machines int   // few, so that calls collide; default 6
	Clients  int   // default 10
	MinOps   int   // required number of answered calls; default 500

	Lasts time.Duration // how long Run makes traffic after the preparations; 0: until its context ends

	Leases Leases // the terms that the peers were built with; default OrdinaryLeases
	Agent  string // the holdfast-agent executable; empty: all agents are in this process
}

// Workload is the traffic of one test. It is used once: Run, then Settle, then History.
type Workload struct {
	cfg      Config
	target   Target
	rec      *Recorder
	prefix   string
	machines []string
	plans    []string
	register string
	known    known
	watchers []*watcher
	tails    *tails
	fleet    *fleet
	real     *Real // nil: none
}

// New returns the traffic of a seed. Nothing happens before Run. The ids of machines also
// have a random part, so that one cluster can have many workloads.
func New(cfg Config, t Target) *Workload {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&cfg.Machines, 6)
	def(&cfg.Clients, 10)
	def(&cfg.MinOps, 500)
	if cfg.Leases == nil {
		cfg.Leases = OrdinaryLeases()
	}
	if t.Log == nil {
		t.Log = slog.New(slog.DiscardHandler)
	}
	var salt [3]byte
	_, _ = crand.Read(salt[:]) // never fails: see crypto/rand
	w := &Workload{cfg: cfg, target: t, prefix: "rb-" + hex.EncodeToString(salt[:])}
	for i := range cfg.Machines {
		w.machines = append(w.machines, fmt.Sprintf("%s-%d", w.prefix, i))
	}
	for _, p := range plans() {
		w.plans = append(w.plans, p.GetPlanId())
	}
	w.register = w.prefix + "-register"
	w.known.runs = map[string][]asked{}
	w.fleet, w.real = newFleet(w), realOf(t.Site)
	return w
}

// Run registers machines and plans, and then makes traffic until ctx ends and there was enough
// of it, see History.Lacks. It returns when all calls have ended; started runs and clients of
// leases continue. It fails if there could be no traffic at all.
func (w *Workload) Run(ctx context.Context) error {
	var err error
	if w.rec, err = NewRecorder(w.target.Addrs, w.target.Creds); err != nil {
		return err
	}
	if err := w.prepare(ctx); err != nil {
		return fmt.Errorf("prepare the workload: %w", err)
	}
	if w.cfg.Lasts > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, w.cfg.Lasts)
		defer stop()
	}
	ctx, stop := w.untilEnough(ctx)
	defer stop()
	for i := range max(3, len(w.target.Addrs)) {
		w.watchers = append(w.watchers, newWatcher(fmt.Sprintf("watcher %d", i), w.rec.peers, i, w.rng(1000+i)))
	}
	w.tails = newTails(w.rec.peers)
	if err := w.fleet.start(ctx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	for _, wr := range w.watchers {
		wg.Go(func() { wr.follow(ctx, func() bool { return false }) })
	}
	for i := range 4 {
		rng := w.rng(3000 + i)
		wg.Go(func() { w.tails.work(ctx, rng) })
	}
	wg.Go(func() { w.drive(ctx) })
	for i := range w.cfg.Clients {
		c := &client{w: w, id: i, rng: w.rng(i)}
		wg.Go(func() { c.run(ctx) })
	}
	wg.Wait()
	return nil
}

// rng returns a random source. Each goroutine has its own, so that a seed does not depend
// on the scheduler.
func (w *Workload) rng(salt int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(w.cfg.Seed), uint64(salt)))
}

// prepare registers the objects of the traffic. It retries until ctx ends, because faults
// may have begun.
func (w *Workload) prepare(ctx context.Context) error {
	var todo []func(context.Context, peer) error
	for _, p := range append(plans(), register(w.register, "")) {
		todo = append(todo, func(ctx context.Context, at peer) error {
			_, err := at.plans.CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: p})
			if p.GetPlanId() != w.register && status.Code(err) == codes.AlreadyExists {
				return errForeign
			}
			return err
		})
	}
	for _, id := range w.machines {
		todo = append(todo, func(ctx context.Context, at peer) error {
			_, err := at.machines.RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{
				MachineId: id, Labels: map[string]string{"fleet": w.prefix}}})
			return err
		})
	}
	todo = append(todo, w.fleet.prepare()...)
	if w.real != nil {
		todo = append(todo, w.real.prepare()...)
	}
	for i, do := range todo {
		for try := 0; ; try++ {
			call, cancel := context.WithTimeout(ctx, 3*time.Second)
			err := do(call, w.rec.peers[(i+try)%len(w.rec.peers)])
			cancel()
			if err == nil {
				break
			}
			if errors.Is(err, errForeign) || wait.Sleep(ctx, 50*time.Millisecond) != nil {
				return err
			}
		}
	}
	return nil
}

var errForeign = errors.New("the cluster has other plans of these names: use a fresh cluster")

// Settle blocks until every run has ended, every watcher has seen its end, every log tail
// has read its last byte, and stopped clients of leases had time to be lost. It is called
// after Run, when all faults are repaired. It returns an error if ctx ends first.
func (w *Workload) Settle(ctx context.Context) error {
	fleet := make(chan error, 1)
	go func() { fleet <- w.fleet.finish(ctx) }()
	err := w.settle(ctx)
	return errors.Join(err, <-fleet, w.rec.Close())
}

// Close stops what continues after Run. It need not be called after Settle.
func (w *Workload) Close() { w.fleet.close() }

func (w *Workload) settle(ctx context.Context) error {
	if _, err := w.runsEnded(ctx); err != nil {
		return err
	}
	if err := w.rest(ctx); err != nil {
		return err
	}
	ended, err := w.runsEnded(ctx)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, len(w.watchers)+1)
	for i, wr := range w.watchers {
		wg.Go(func() {
			wr.follow(ctx, func() bool { return wr.hasSeenEnd(ended) })
			if !wr.hasSeenEnd(ended) {
				errs[i] = fmt.Errorf("%s has not seen the end of all %d runs in time", wr.name, len(ended))
			}
		})
	}
	wg.Go(func() { errs[len(w.watchers)] = w.tails.finish(ctx) })
	wg.Wait()
	return errors.Join(errs...)
}

// runsEnded blocks until no run is active, twice in a row, and returns all runs.
func (w *Workload) runsEnded(ctx context.Context) (ids []string, err error) {
	var before []string
	for try, logged := 0, time.Now(); ; try++ {
		runs, err := ListRuns(ctx, w.rec.peers[try%len(w.rec.peers)].runs)
		ids, active := []string{}, []string{}
		for _, r := range runs {
			ids = append(ids, r.GetRunId())
			if !SeenRun(r).Ended {
				active = append(active, fmt.Sprintf("%s of %s (%s)", r.GetRunId(), r.GetMachineId(), r.GetWait().GetSentence()))
			}
		}
		switch {
		case err != nil || len(active) > 0:
			before = nil
		case before != nil && slices.Equal(before, ids):
			return ids, nil
		default:
			before = ids
		}
		if time.Since(logged) > 10*time.Second {
			logged = time.Now()
			w.target.Log.Info("runs are active", "runs", active)
		}
		if werr := wait.Sleep(ctx, 300*time.Millisecond); werr != nil {
			return nil, fmt.Errorf("wait for all runs to end: %d are active %v: %w", len(active), active,
				errors.Join(err, werr))
		}
	}
}

// ListRuns returns all runs, newest first, as a linearizable read of some peer.
func ListRuns(ctx context.Context, c holdfastv1.RunServiceClient) ([]*holdfastv1.Run, error) {
	var all []*holdfastv1.Run
	for token := ""; ; {
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		page, err := c.ListRuns(call, &holdfastv1.ListRunsRequest{PageSize: 1000, PageToken: token})
		cancel()
		if err != nil {
			return nil, fmt.Errorf("list runs: %w", err)
		}
		all = append(all, page.GetRuns()...)
		if token = page.GetNextPageToken(); token == "" {
			return all, nil
		}
	}
}

// History returns everything recorded.
func (w *Workload) History() *History {
	h := &History{
		Prefix:   w.prefix,
		Machines: slices.Clone(w.machines),
		Plans:    slices.Clone(w.plans),
		Register: w.register,
		MinOps:   w.cfg.MinOps,
	}
	if w.rec == nil {
		return h
	}
	h.Base, h.Ops = w.rec.base, w.rec.Ops()
	for _, wr := range w.watchers {
		h.Watches = append(h.Watches, wr.seen())
	}
	if w.tails != nil {
		h.Tails = w.tails.seen()
	}
	h.Fleet, h.Real = w.fleet.seen(), w.real
	return h
}

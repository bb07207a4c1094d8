package simulate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/bench/load"
	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	inFlight          = 64  // concurrent calls during registration
	servicesAToken    = 500 // services that share a token: its rate limit is 200 calls per second
	tokenGrace        = time.Hour
	deregisterTimeout = time.Minute
)

// Options sets the size and the behavior of a fleet.
type Options struct {
	Agents, Services, Pools, Machines int
	Duration                          time.Duration // 0: until the context ends
	Rate                              float64       // registrations per second
	Runs                              float64       // started runs per second
	Ping                              time.Duration // between two pings of a service
	Connections                       int           // maximum, to all peers
	Servers                           []string      // base URLs; none: those of the cluster status
	Prefix, Provider                  string        // of all names; of the machines
	Hardware                          string        // address of the machines' BMCs; empty: another process serves them
	Every                             time.Duration // between two lines of progress; 0: none

	run      uint32       // id of this simulation
	progress func(*fleet) // called periodically; nil for none
}

// check returns an error if the options cannot be simulated.
func (o *Options) check() error {
	switch {
	case o.Agents < 0 || o.Services < 0 || o.Pools < 0 || o.Machines < 0 || o.Agents+o.Services+o.Pools+o.Machines == 0:
		return errors.New("set at least one of --agents, --services, --pools and --machines to 1 or more, and none to " +
			"less than 0")
	case o.Rate <= 0 || o.Connections < 1 || o.Ping < leastWait || o.Duration < 0:
		return fmt.Errorf("set --rate and --connections to more than 0, --ping to %s or more, --duration to 0s or more",
			leastWait)
	case o.Runs < 0 || o.Runs > 0 && o.Machines == 0:
		return errors.New("set --runs to 0 or more, and --machines to have machines for them")
	}
	return nil
}

// poolToken is a pool and the tokens of its machines and its manager.
type poolToken struct{ name, token string }

// fleet is a simulation.
type fleet struct {
	Options
	client *client.Client
	tls    *tls.Config // of agents, without client certificates
	notes  io.Writer

	kinds    []*kind
	peers    []*load.Wires
	declared atomic.Int64 // machines
	turn     atomic.Int64 // index of the machine of the next run
	runs     runs
}

// Run simulates a fleet until ctx ends or its duration is over, and returns the result. Admin is
// the configuration of a client with the role of an admin.
func Run(ctx context.Context, o Options, admin client.Config, notes io.Writer) (r *Report, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.run = uint32(time.Now().Unix()) // only a name: 32 bits are enough
	f := &fleet{Options: o, notes: notes}
	if f.client, err = client.Dial(admin); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.client.Close()) }()
	if admin.TLS != nil {
		f.tls = admin.TLS.Clone()
		f.tls.Certificates, f.tls.GetClientCertificate, f.tls.NextProtos = nil, nil, []string{"http/1.1"}
	}
	began := time.Now()
	if err := f.prepare(ctx); err != nil {
		return nil, fmt.Errorf("prepare the fleet: %w", err)
	}
	defer func() {
		for _, p := range f.peers {
			p.Close()
		}
	}()
	if err := f.live(ctx); err != nil {
		return nil, err
	}
	// ctx may have ended: the rest has its own deadline.
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), deregisterTimeout)
	defer stop()
	if r, err = f.report(last, began); err == nil {
		f.deregister(last, r)
	}
	return r, err
}

// prepare finds the peers and creates pools, tokens and the plan.
func (f *fleet) prepare(ctx context.Context) error {
	if err := f.find(ctx); err != nil {
		return err
	}
	var pools []poolToken
	for i := range max(f.Pools, min(f.Agents, 1)) {
		pools = append(pools, poolToken{name: fmt.Sprintf("%s-pool-%04d", f.Prefix, i)})
	}
	err := each(ctx, len(pools), func(ctx context.Context, i int) (err error) {
		name := pools[i].name
		if _, err := f.client.Pools().CreatePool(ctx,
			&holdfastv1.CreatePoolRequest{Pool: &holdfastv1.Pool{PoolId: name}}); err != nil &&
			status.Code(err) != codes.AlreadyExists {
			return fmt.Errorf("create pool %s: %w", name, err)
		}
		pools[i].token, err = f.token(ctx, name, holdfastv1.Role_POOL_AGENT, name)
		return err
	})
	if err != nil {
		return err
	}
	crews := make([]string, (f.Services+servicesAToken-1)/servicesAToken)
	err = each(ctx, len(crews), func(ctx context.Context, i int) (err error) {
		crews[i], err = f.token(ctx, fmt.Sprintf("%s-services-%d", f.Prefix, i), holdfastv1.Role_SERVICE)
		return err
	})
	if err != nil {
		return err
	}
	f.kinds = []*kind{managers(&f.Options, pools), agents(&f.Options, pools), services(&f.Options, crews)}
	return f.plan(ctx)
}

// token creates a token that expires some time after the simulation.
func (f *fleet) token(ctx context.Context, name string, role holdfastv1.Role_Value, pools ...string) (string, error) {
	r := &holdfastv1.CreateTokenRequest{Name: name, Role: role, Pools: pools, Comment: "holdfast-bench simulate"}
	if f.Duration > 0 {
		r.TtlSeconds = int64((f.Duration + tokenGrace) / time.Second)
	}
	made, err := f.client.Access().CreateToken(ctx, r)
	if err != nil {
		return "", fmt.Errorf("create token %s: %w", name, err)
	}
	return made.GetSecret(), nil
}

// find finds the HTTP addresses of the peers.
func (f *fleet) find(ctx context.Context) error {
	if len(f.Servers) == 0 {
		s, err := f.client.Cluster().GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
		if err != nil {
			return fmt.Errorf("get the addresses of the peers: %w", err)
		}
		for _, p := range s.GetPeers() {
			if p.GetHttpAddr() != "" {
				f.peers = append(f.peers, &load.Wires{Target: f.target(p.GetHttpAddr(), f.tls != nil)})
			}
		}
	}
	for _, s := range f.Servers {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || u.Port() == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("set --servers to base URLs with a port, e.g. https://peer-1:7401, not %q", s)
		}
		f.peers = append(f.peers, &load.Wires{Target: f.target(u.Host, u.Scheme == "https")})
	}
	if len(f.peers) == 0 {
		return errors.New("find the peers' HTTP addresses: the cluster status has none: set --servers")
	}
	return nil
}

func (f *fleet) target(addr string, secure bool) load.Target {
	t := load.Target{Addr: addr}
	if secure {
		t.TLS = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
		if f.tls != nil {
			t.TLS = f.tls.Clone()
		}
		if host, _, err := net.SplitHostPort(addr); err == nil {
			t.TLS.ServerName = host
		}
	}
	return t
}

// live runs the fleet until its duration is over.
func (f *fleet) live(ctx context.Context) error {
	if f.Duration > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, f.Duration)
		defer stop()
	}
	f.say("%d agents, %d services, %d pool managers, %d machines; %d peers", f.Agents, f.Services, f.Pools,
		f.Machines, len(f.peers))
	g, gctx := errgroup.WithContext(ctx)
	for _, s := range f.schedules() {
		g.Go(func() error {
			s.Run(gctx)
			return nil
		})
	}
	g.Go(func() error { return f.machines(gctx) })
	if f.Hardware != "" {
		g.Go(func() error { return f.hardware(gctx) })
	}
	g.Go(func() error { return f.tell(gctx) })
	return g.Wait()
}

// schedules returns a schedule for each kind, so that a few pool managers do not wait for all
// agents. Members register in turn, pools first, because agents need them.
func (f *fleet) schedules() []*load.Schedule {
	gap := time.Duration(float64(time.Second) / f.Rate)
	all := f.Agents + f.Services + len(f.kinds[0].members)
	var schedules []*load.Schedule
	before := 0
	for _, k := range f.kinds {
		if len(k.members) == 0 {
			continue
		}
		for i := range k.members {
			k.members[i].peer = uint8(i % len(f.peers))
		}
		first := time.Duration(before) * gap
		schedules = append(schedules, &load.Schedule{
			Members: len(k.members), AtOnce: f.share(len(k.members), all),
			First: func(i int) time.Duration { return first + time.Duration(i)*gap },
			Call: func(ctx context.Context, i int, due time.Time) time.Duration {
				return k.call(ctx, f.peers, i, due)
			},
		})
		before += len(k.members)
	}
	return schedules
}

// share returns the maximum number of concurrent calls of a kind: one half of all calls is divided
// equally among the kinds, the other half by their sizes.
func (f *fleet) share(members, all int) int {
	return max(f.Connections/(2*len(f.kinds))+f.Connections*members/(2*max(all, 1)), 1)
}

// each calls do for all numbers below n, concurrently, until one call fails.
func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(inFlight)
	for i := range n {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() error { return do(gctx, i) })
	}
	return errors.Join(g.Wait(), ctx.Err())
}

// Package apitest contains the shared parts of the tests of the HTTP APIs: a single peer
// with a real server, gate and state, and tables of requests with their expected responses.
//
// It owns the stand-ins for consensus (a command is applied at once) and for leases, which
// package executor/lease tests. It is for tests only.
package apitest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// Lab is a single peer. The cluster clock is 2026-01-29T15:10:00Z when New returns and
// advances by one second with each command.
type Lab struct {
	testing.TB
	Handler http.Handler
	Server  *server.Server

	state *fsm.FSM

	mu     sync.Mutex
	index  uint64
	now    time.Time
	clock  int64 // lease clock, in milliseconds
	lost   bool  // there is no leader
	unsure bool  // the outcome of every command is lost
	tokens map[string]string
	denied []*holdfastv1.AuditEvent
	peers  *holdfastv1.ClusterStatus
}

// New starts a peer with one API, a machine 1165a9b6 that waits for its agent, and tokens.
// They are admin, operator, viewer, agent (of that machine), gpu and pool (of the pools gpu
// and pool-1), service, elsewhere (an operator of another pool), expired and revoked
// (operators).
func New(t testing.TB, add func(m *auth.Mux, rpc grpc.ClientConnInterface, s *server.Server)) *Lab {
	t.Helper()
	return open(t, server.Config{}, providers.SetOf(nil), add)
}

// Discovering is New for a peer that registers unknown machines (--auto-discover).
func Discovering(t testing.TB, add func(m *auth.Mux, rpc grpc.ClientConnInterface, s *server.Server)) *Lab {
	t.Helper()
	return open(t, server.Config{AutoDiscover: true}, providers.SetOf(nil), add)
}

// Driving is New for a peer with providers.
func Driving(
	t testing.TB,
	set *providers.Set,
	add func(m *auth.Mux, rpc grpc.ClientConnInterface, s *server.Server),
) *Lab {
	t.Helper()
	return open(t, server.Config{}, set, add)
}

// WithIssuers is New for a peer that accepts access tokens of OIDC issuers.
func WithIssuers(
	t testing.TB,
	issuers []auth.Issuer,
	add func(m *auth.Mux, rpc grpc.ClientConnInterface, s *server.Server),
) *Lab {
	t.Helper()
	return open(t, server.Config{}, providers.SetOf(nil), add, issuers...)
}

func open(
	t testing.TB,
	cfg server.Config,
	set *providers.Set,
	add func(m *auth.Mux, rpc grpc.ClientConnInterface, s *server.Server),
	issuers ...auth.Issuer,
) *Lab {
	t.Helper()
	begin := time.Date(2026, 1, 29, 15, 10, 0, 0, time.UTC)
	l := &Lab{TB: t, state: fsm.New(), now: begin.Add(-time.Hour), tokens: map[string]string{},
		peers: &holdfastv1.ClusterStatus{}}
	l.Do(&internalv1.LeaderEstablished{PeerId: "p1", Term: 1})
	for _, plan := range fsm.DefaultPlans() {
		l.Do(&internalv1.CreatePlan{Plan: plan, BuiltIn: true})
	}
	l.Do(&internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "gpu"}})
	past := timestamppb.New(begin.AddDate(0, 0, 1)) // past for the wall clock, future for the cluster clock
	for name, tok := range map[string]*holdfastv1.Token{
		"admin":     {Role: holdfastv1.Role_ADMIN},
		"operator":  {Role: holdfastv1.Role_OPERATOR},
		"viewer":    {Role: holdfastv1.Role_VIEWER},
		"gpu":       {Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"gpu"}},
		"pool":      {Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"pool-1"}},
		"service":   {Role: holdfastv1.Role_SERVICE},
		"elsewhere": {Role: holdfastv1.Role_OPERATOR, Pools: []string{"elsewhere"}},
		"expired":   {Role: holdfastv1.Role_OPERATOR, ExpiresAt: past},
		"revoked":   {Role: holdfastv1.Role_OPERATOR},
	} {
		secret, hash := secrets.NewToken()
		tok.TokenId, tok.Name = "tok-"+name, name
		l.Do(&internalv1.CreateToken{Token: &internalv1.StoredToken{Token: tok, Sha256: hash}})
		l.tokens[name] = secret
	}
	l.Do(&internalv1.RevokeToken{TokenId: "tok-revoked"})
	l.now = begin.Add(-time.Second)
	secret, hash := secrets.NewToken()
	l.Do(&internalv1.CreateAgentMachine{
		MachineId:    "1165a9b6",
		Pool:         "gpu",
		PendingTtlMs: time.Hour.Milliseconds(),
		Token: &internalv1.StoredToken{
			Sha256: hash,
			Token:  &holdfastv1.Token{TokenId: "tok-agent", Name: "agent"},
		},
	})
	l.tokens["agent"] = secret
	gate, err := auth.New(auth.Config{PeerID: "p1", RatePerSecond: -1, Issuers: issuers}, auth.Deps{
		Records: func() auth.Records { return l.state.View() },
		Fresh:   func(context.Context) (auth.Records, error) { return l.state.View(), nil },
		Report:  l.report,
		Session: func(id string) (*holdfastv1.Session, bool) { return l.state.View().Session(id) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = gate.Denials().Run(ctx) // ends with ctx
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	cfg.Gate, cfg.Leases, cfg.PlatformMarginPercent = gate, l, 12.5
	l.Server = server.New(cfg, l, l.state, set)
	l.Handler = l.Server.HTTPHandler(func(m *auth.Mux, rpc grpc.ClientConnInterface) { add(m, rpc, l.Server) })
	return l
}

func (l *Lab) report(_ context.Context, d *internalv1.RecordDenials) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.denied = append(l.denied, d.GetEvents()...)
	return nil
}

// Denied returns the refusals in the audit trail, as "method resource source reason".
func (l *Lab) Denied() (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.denied {
		all = append(all, strings.Join([]string{e.GetMethod(), e.GetResource(), e.GetSource(), e.GetReason()}, " "))
	}
	return all
}

// Do applies a command that must succeed.
func (l *Lab) Do(op proto.Message) {
	l.Helper()
	l.DoAs("", op)
}

// DoAs is Do for a command of a principal.
func (l *Lab) DoAs(principal string, op proto.Message) {
	l.Helper()
	c := &internalv1.Command{Principal: principal}
	fields := c.ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); fd.Message().FullName() == op.ProtoReflect().Descriptor().FullName() {
			c.ProtoReflect().Set(fd, protoreflect.ValueOfMessage(op.ProtoReflect()))
		}
	}
	if _, err := l.Apply(context.Background(), c); err != nil {
		l.Fatalf("%T: %v", op, err)
	}
}

// NewToken creates a token and returns its value.
func (l *Lab) NewToken(tok *holdfastv1.Token) string {
	l.Helper()
	secret, hash := secrets.NewToken()
	tok.TokenId = fmt.Sprintf("tok-new-%d", len(l.tokens))
	tok.Name = tok.GetTokenId()
	l.Do(&internalv1.CreateToken{Token: &internalv1.StoredToken{Token: tok, Sha256: hash}})
	l.tokens[tok.GetName()] = secret
	return secret
}

// State returns the current state.
func (l *Lab) State() *fsm.View { return l.state.View() }

// Revoke revokes a token.
func (l *Lab) Revoke(name string) { l.Do(&internalv1.RevokeToken{TokenId: "tok-" + name}) }

// LoseLeader makes every call that needs the leader fail, as during an election.
func (l *Lab) LoseLeader(lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = lost
}

// LoseOutcomes makes the leader apply each command and die before it answers.
func (l *Lab) LoseOutcomes(lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsure = lost
}

var errNoLeader = &outcome.Error{Outcome: outcome.NotApplied, Err: outcome.ErrNoLeader}

// Apply implements server.Proposer.
func (l *Lab) Apply(_ context.Context, c *internalv1.Command) (fsm.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost {
		return fsm.Result{}, errNoLeader
	}
	c = proto.CloneOf(c)
	l.now = l.now.Add(time.Second)
	l.index++
	c.Time, c.Epoch, c.FeatureLevel = timestamppb.New(l.now), 1, 1
	if c.GetPrincipal() == "" {
		c.Principal = "tester"
	}
	data, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{c}})
	if err != nil {
		return fsm.Result{}, fmt.Errorf("encode entry: %w", err)
	}
	res := l.state.Apply(l.index, 1, data)[0]
	switch {
	case l.unsure:
		return fsm.Result{}, &outcome.Error{Outcome: outcome.Unknown, Err: errors.New("the leader died")}
	case res.Err != nil:
		return res, res.Err
	}
	return res, nil
}

// View implements server.Proposer.
func (l *Lab) View(context.Context) (*fsm.View, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost {
		return nil, errNoLeader
	}
	return l.state.View(), nil
}

// Leader implements server.Membership.
func (l *Lab) Leader() (id string, self, ok bool) { return "p1", true, true }

// Role implements server.Membership.
func (l *Lab) Role() string { return "leader" }

// Readiness implements server.Membership.
func (l *Lab) Readiness() error { return nil }

// Status implements server.Membership.
func (l *Lab) Status(context.Context) *holdfastv1.ClusterStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return proto.CloneOf(l.peers)
}

// SetStatus sets the status of the cluster.
func (l *Lab) SetStatus(st *holdfastv1.ClusterStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peers = st
}

// Renew implements server.Leases. Each heartbeat is committed at once if the state knows
// its owner.
func (l *Lab) Renew(ctx context.Context, rn *internalv1.Renewal) (*internalv1.RenewalAnswer, error) {
	l.mu.Lock()
	l.clock += 1000
	clock := l.clock
	l.mu.Unlock()
	v := l.state.View()
	before, ok := v.Lease(rn.GetLease().GetKind(), rn.GetLease().GetId())
	if !ok && rn.GetLease().GetKind() == internalv1.LeaseRef_MACHINE {
		_, ok = v.Machine(rn.GetLease().GetId()) // the first heartbeat may arrive before the registration
	}
	switch {
	case !ok:
		return &internalv1.RenewalAnswer{Outcome: internalv1.RenewalAnswer_UNKNOWN_LEASE}, nil
	case before.GetGone() && rn.GetLease().GetKind() == internalv1.LeaseRef_POOL:
		return &internalv1.RenewalAnswer{Outcome: internalv1.RenewalAnswer_UNKNOWN_LEASE}, nil
	case before.GetExpiredAt() != nil:
		return &internalv1.RenewalAnswer{Outcome: internalv1.RenewalAnswer_EXPIRED}, nil
	}
	seen := []*internalv1.SeenLease{{Renewal: rn, SeenMs: clock}}
	if _, err := l.Apply(ctx, &internalv1.Command{Op: &internalv1.Command_CheckpointLeases{
		CheckpointLeases: &internalv1.CheckpointLeases{ClockMs: clock, Leases: seen},
	}}); err != nil {
		return nil, err
	}
	after, _ := l.state.View().Lease(rn.GetLease().GetKind(), rn.GetLease().GetId())
	m, _ := l.state.View().Machine(rn.GetLease().GetId())
	return &internalv1.RenewalAnswer{
		PoolName:   m.GetSpec().GetPool(),
		Outcome:    internalv1.RenewalAnswer_RENEWED,
		TtlMs:      after.GetTtlMs(),
		IntervalMs: 10_000,
		At:         after.GetLastSeen(),
	}, nil
}

// Pass moves the time of the next commands.
func (l *Lab) Pass(d time.Duration) { l.now = l.now.Add(d) }

// Expire makes a lease expire, as if no heartbeat had arrived for its whole TTL.
func (l *Lab) Expire(kind internalv1.LeaseRef_Kind, id string) {
	l.Helper()
	lease, ok := l.state.View().Lease(kind, id)
	if !ok {
		l.Fatalf("there is no lease of %s", id)
	}
	l.mu.Lock()
	l.clock = max(l.clock, lease.GetSeenMs()) + lease.GetTtlMs() + 1
	clock := l.clock
	l.mu.Unlock()
	l.Do(&internalv1.ExpireLeases{ClockMs: clock, Leases: []*internalv1.LeaseRef{lease.GetRef()}})
}

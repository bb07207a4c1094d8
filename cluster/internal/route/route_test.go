package route

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/internal/peerauth"
	"github.com/holdfast-metal/holdfast/cluster/internal/peerconn"
	"github.com/holdfast-metal/holdfast/cluster/internal/read"
	"github.com/holdfast-metal/holdfast/cluster/internal/terms"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// lab is the follower p1, with the leader and the other peers that a test sets.
type lab struct {
	*Router
	ctx     context.Context // of the bubble
	changed *wait.Signal

	mu      sync.Mutex
	leader  string
	answers map[string]func(ctx context.Context) error // what a call to a peer does
	events  []string
	counted []string
}

func (l *lab) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, fmt.Sprintf(format, args...))
}

func (l *lab) took() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.events
	l.events = nil
	return e
}

func (l *lab) lead(id string) {
	l.mu.Lock()
	l.leader = id
	l.mu.Unlock()
	l.changed.Fire()
}

func (l *lab) Leader() (string, bool, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader, l.leader == "p1", l.leader != ""
}

func (l *lab) Current() (terms.Leadership, bool) {
	id, _, _ := l.Leader()
	return terms.Leadership{Term: 3, Floor: 40}, id == "p1"
}

func (l *lab) NotReady() error {
	if _, ok := l.Current(); ok {
		return nil
	}
	return outcome.ErrNotLeader
}

func (l *lab) Confirm(context.Context, uint64, string) error { return nil }
func (l *lab) Applied() uint64                               { return 50 }

func (l *lab) WaitApplied(ctx context.Context, index uint64) error {
	if index <= 50 {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// conn is the connection to a peer.
type conn struct {
	l  *lab
	id string
}

func (c conn) ResetConnectBackoff() {}

func (c conn) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	md, _ := metadata.FromOutgoingContext(ctx)
	what := "call " + c.id
	if d := md.Get(call.HeaderDelivery); len(d) == 1 {
		what += ", again " + d[0][strings.LastIndex(d[0], ";")+1:]
	}
	if c := md.Get(call.HeaderConsistency); len(c) == 1 {
		what += ", " + c[0] + " at " + strings.Join(md.Get(call.HeaderMinIndex), "")
	}
	c.l.note("%s", what)
	return c.l.answers[c.id](ctx)
}

// dies is the answer of a peer that dies with the call: before it was sent, or after that.
func dies(sent bool) func(context.Context) error {
	return func(ctx context.Context) error {
		peerconn.MarkSent(ctx, sent)
		return status.Error(codes.Unavailable, "connection refused")
	}
}

func answersWell(context.Context) error { return nil }

func bubble(t *testing.T, do func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{ctx: t.Context(), changed: wait.NewSignal(), answers: map[string]func(context.Context) error{}}
		why := func(id string) string { return "leader " + id + " is unreachable" }
		r := read.New(t.Context(), read.Config{
			Self: "p1", Leader: l.Leader, Leads: func() bool { id, _, _ := l.Leader(); return id == "p1" },
			Stopped: func() bool { return false }, Why: why, CommitIndex: l.Applied, Changed: l.changed,
			Ask: func(context.Context, string) (uint64, error) { return 60, nil },
		}, l, l)
		l.Router = New(Config{
			Self: "p1", Conn: func(id string) (Conn, error) { return conn{l, id}, nil }, Leader: l.Leader,
			LastContact: func() int64 { return 7 }, Leaderless: func() *time.Time { return nil }, Why: why,
			Changed: l.changed, Before: func(time.Time) uint64 { return 0 }, Read: func(string) {},
			Forwarded: func(result string) {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.counted = append(l.counted, result)
			},
			Scale:  func(d time.Duration) time.Duration { return d },
			Logger: slog.New(slog.DiscardHandler),
		}, r, peerauth.New(peerauth.Config{}), l.Applied)
		do(t, l)
	})
}

const (
	create   = "/holdfast.v1.NodeService/CreateNode" // may have its effect once only
	transfer = "/holdfast.v1.OperatorService/TransferLeadership"
	get      = "/holdfast.v1.MachineService/GetMachine"
)

// serve makes a call at p1, which handles it itself if it may.
func (l *lab) serve(ctx context.Context, method string) error {
	_, err := l.InterceptUnary(ctx, &holdfastv1.CreateNodeRequest{}, &grpc.UnaryServerInfo{FullMethod: method},
		func(context.Context, any) (any, error) {
			l.note("handled here")
			return nil, nil
		})
	return err
}

// A call whose leader dies is delivered to the next one, as the same delivery if the first leader
// may have applied it. Without an id for that, it is not repeated, and the caller learns that its
// outcome is unknown.
func TestPeerDiesWithTheCall(t *testing.T) {
	forwarded := metadata.Pairs(call.HeaderForwardedBy, "p9")
	for _, tt := range []struct {
		name    string
		method  string
		md      metadata.MD
		sent    bool
		next    string // the leader a second later
		events  []string
		counted []string
		want    outcome.Kind // 0: an answer
	}{
		{"before it was sent", create, nil, false, "p3", []string{"call p2, again false", "call p3, again false"},
			[]string{"not_applied", "answered"}, 0},
		{"after it was sent", create, nil, true, "p3", []string{"call p2, again false", "call p3, again true"},
			[]string{"unknown", "answered"}, 0},
		{"after it was sent, and this peer leads next", create, nil, true, "p1",
			[]string{"call p2, again false", "handled here"}, []string{"unknown"}, 0},
		{"after it was sent, with effects outside of the state", transfer, nil, true, "p3", []string{"call p2"},
			[]string{"unknown"}, outcome.Unknown},
		{"before it was sent, with effects outside of the state", transfer, nil, false, "p3",
			[]string{"call p2", "call p3"}, []string{"not_applied", "answered"}, 0},
		{"a read", get, nil, true, "p3", []string{"call p2, stale at 60", "call p3, stale at 60"},
			[]string{"unknown", "answered"}, 0},
		{"a call that was forwarded here", create, forwarded, true, "p3", nil, nil, outcome.NotApplied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, l *lab) {
				l.lead("p2")
				l.answers["p2"] = func(ctx context.Context) error {
					l.lead(tt.next)
					return dies(tt.sent)(ctx)
				}
				l.answers["p3"] = answersWell
				err := l.serve(metadata.NewIncomingContext(l.ctx, tt.md), tt.method)
				var o *outcome.Error
				if errors.As(err, &o); (err != nil) != (tt.want != 0) || o != nil && o.Outcome != tt.want {
					t.Errorf("got %v, want outcome %v", err, tt.want)
				}
				if diff := cmp.Diff(tt.events, l.took()); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.counted, l.counted); diff != "" {
					t.Errorf("counted (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A host that vanishes closes no connection. The call to it ends soon after another peer leads.
func TestHostVanishesWithTheCall(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		l.lead("p2")
		l.answers["p2"] = func(ctx context.Context) error {
			peerconn.MarkSent(ctx, true)
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
		l.answers["p3"] = answersWell
		go func() {
			time.Sleep(3 * time.Second) // sleep: in a synctest bubble
			l.lead("p3")
		}()
		began := time.Now()
		if err := l.serve(l.ctx, create); err != nil {
			t.Errorf("got %v, want the answer of p3", err)
		}
		if took := time.Since(began); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("got the answer after %v, want it within a second of the election", took)
		}
		if diff := cmp.Diff([]string{"call p2, again false", "call p3, again true"}, l.took()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// Without a leader, a call is held for a limited time, and the caller learns why nobody serves it,
// before its own deadline.
func TestNoLeader(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		for _, tt := range []struct{ caller, want time.Duration }{
			{time.Minute, read.HoldTimeout}, {time.Second, time.Second - answerMargin},
		} {
			ctx, cancel := context.WithTimeout(l.ctx, tt.caller)
			began := time.Now()
			err := l.serve(ctx, create)
			if !errors.Is(err, outcome.ErrNoLeader) || !strings.Contains(err.Error(), "is unreachable") ||
				time.Since(began) != tt.want {
				t.Errorf("deadline %v: got %v after %v, want no leader, and why, after %v", tt.caller, err, time.Since(began),
					tt.want)
			}
			cancel()
		}
		if err := l.serve(l.ctx, "/holdfast.v1.ClusterService/GetClusterStatus"); err != nil {
			t.Errorf("the status: got %v, want this peer's", err)
		}
		stale := metadata.NewIncomingContext(l.ctx, metadata.Pairs(call.HeaderConsistency, "stale"))
		if err := l.serve(stale, get); err != nil {
			t.Errorf("a stale read: got %v, want this peer's state", err)
		}
	})
}

package members

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/internal/gossip"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// lab is the leader p1 with its state, and the other peers that a test sets.
type lab struct {
	*Members
	ctx     context.Context // of the bubble
	state   *fsm.FSM
	changed *wait.Signal

	mu      sync.Mutex
	index   uint64
	leads   bool
	servers []raft.Server
	running map[string]gossip.Member
	silent  map[string]bool // peers that answer no request
	events  []string
	fail    string // an event that fails
}

type future struct {
	raft.IndexFuture
	err error
}

func (f future) Error() error { return f.err }

// note records an event, and returns an error if it is the one that fails.
func (l *lab) note(format string, args ...any) error {
	event := fmt.Sprintf(format, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, event)
	if event == l.fail {
		return errors.New("broken")
	}
	return nil
}

// took returns the events since the last call.
func (l *lab) took() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.events
	l.events = nil
	return e
}

// configure makes a peer a server of the configuration, or removes it if suffrage is nil.
func (l *lab) configure(event, id string, suffrage *raft.ServerSuffrage) raft.IndexFuture {
	if err := l.note("%s %s", event, id); err != nil {
		return future{err: err}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers = slices.DeleteFunc(slices.Clone(l.servers), func(s raft.Server) bool { return string(s.ID) == id })
	if suffrage != nil {
		l.servers = append(l.servers, raft.Server{ID: raft.ServerID(id), Suffrage: *suffrage,
			Address: raft.ServerAddress(id + ":1")})
	}
	return future{}
}

func (l *lab) AddVoter(id raft.ServerID, _ raft.ServerAddress, _ uint64, _ time.Duration) raft.IndexFuture {
	return l.configure("promote", string(id), new(raft.Voter))
}

func (l *lab) AddNonvoter(id raft.ServerID, _ raft.ServerAddress, _ uint64, _ time.Duration) raft.IndexFuture {
	return l.configure("add", string(id), new(raft.Nonvoter))
}

func (l *lab) DemoteVoter(id raft.ServerID, _ uint64, _ time.Duration) raft.IndexFuture {
	return l.configure("demote", string(id), new(raft.Nonvoter))
}

func (l *lab) RemoveServer(id raft.ServerID, _ uint64, _ time.Duration) raft.IndexFuture {
	return l.configure("remove", string(id), nil)
}

func (l *lab) Peers() []gossip.Member {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []gossip.Member
	for _, m := range l.running {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b gossip.Member) int { return strings.Compare(a.Meta.GetId(), b.Meta.GetId()) })
	return all
}

func (l *lab) Peer(id string) (gossip.Member, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, ok := l.running[id]
	return m, ok
}

func (l *lab) Changed() <-chan struct{} { return l.changed.Wait() }
func (l *lab) Notify()                  { l.changed.Fire() }

// start starts the process of a peer.
func (l *lab) start(id, instance string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[id] = gossip.Member{Alive: true, Addr: id + ":2", Meta: &internalv1.GossipMeta{Id: id, Instance: instance,
		RaftAddr: id + ":1", GrpcAddr: id + ":3", MaxFeatureLevel: fsm.FeatureLevel}}
}

// commit applies a command to the state.
func (l *lab) commit(_ context.Context, c *internalv1.Command) error {
	op := c.ProtoReflect().WhichOneof(c.ProtoReflect().Descriptor().Oneofs().ByName("op"))
	what := string(op.Name())
	if r := c.GetRemovePeer(); r != nil {
		what = fmt.Sprintf("%s %s, denied %t", what, r.GetId(), r.GetDenial() != nil)
	}
	if err := l.note("commit %s", what); err != nil {
		return err
	}
	c.Time, c.FeatureLevel, c.UptimeMs = timestamppb.Now(), l.state.LevelOf(c), 1
	data, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{c}})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index++
	if e := l.state.Apply(l.index, 3, data)[0].Err; e != nil {
		return e
	}
	return nil
}

func (l *lab) stats(_ context.Context, id string) (*internalv1.StatsResponse, *x509.Certificate, error) {
	m, ok := l.Peer(id)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !ok || l.silent[id] {
		return nil, nil, errors.New("does not answer")
	}
	return &internalv1.StatsResponse{PeerId: id, Instance: m.Meta.GetInstance(), Term: 3, AppliedIndex: 100}, nil, nil
}

// bubble calls do with the leader p1 of three voters, all of which run and are recorded.
func bubble(t *testing.T, do func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{ctx: t.Context(), state: fsm.New(), changed: wait.NewSignal(), leads: true,
			running: map[string]gossip.Member{}, silent: map[string]bool{}}
		l.Members = New(Config{
			Self: "p1", Level: fsm.FeatureLevel,
			Leads: func() (uint64, error) {
				l.mu.Lock()
				defer l.mu.Unlock()
				if !l.leads {
					return 0, outcome.ErrNotLeader
				}
				return 3, nil
			},
			Leader: func() string { return "p1" },
			Servers: func() []raft.Server {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.servers
			},
			CommitIndex: func() uint64 { return 100 }, View: l.state.View, Commit: l.commit, Stats: l.stats,
			Admit: func(_ context.Context, id string, _ *internalv1.AdmitRequest) error {
				return l.note("allow %s to vote", id)
			},
			Denied: func(string, *x509.Certificate) error { return nil },
			Now:    time.Now, Scale: func(d time.Duration) time.Duration { return d },
			Logger: slog.New(slog.DiscardHandler),
		}, l, l)
		for _, id := range []string{"p1", "p2", "p3"} {
			l.start(id, "first")
			l.configure("promote", id, new(raft.Voter))
			if err := l.commit(l.ctx, l.Record(l.running[id])); err != nil {
				t.Fatal(err)
			}
		}
		l.took()
		do(t, l)
	})
}

// The removal of a peer first denies its certificates, so that a leader that fails halfway leaves a
// removal that the next one finishes. It is refused if it could cost the majority.
func TestRemoval(t *testing.T) {
	all := []string{"commit remove_peer p3, denied true", "remove p3", "commit remove_peer p3, denied false"}
	for _, tt := range []struct {
		name   string
		id     string
		force  bool
		silent []string
		reason string
		want   []string
	}{
		{"lost", "p3", false, []string{"p3"}, "", all},
		{"alive", "p3", false, nil, "PEER_ALIVE", nil},
		{"alive, by force", "p3", true, nil, "", all},
		{"the leader", "p1", true, nil, "PEER_LEADS", nil},
		{"no majority remains", "p3", false, []string{"p2", "p3"}, "NO_QUORUM", nil},
		{"unknown", "p9", false, nil, "PEER_NOT_FOUND", nil},
		{"unknown, by force", "p9", true, nil, "", []string{"commit remove_peer p9, denied true"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, l *lab) {
				for _, id := range tt.silent {
					l.silent[id] = true
				}
				err := l.RemovePeer(l.ctx, tt.id, tt.force)
				var refused *fsm.Error
				if errors.As(err, &refused); (err != nil || tt.reason != "") && refused == nil || refused != nil &&
					refused.Reason != tt.reason {
					t.Errorf("got %v, want reason %q", err, tt.reason)
				}
				if diff := cmp.Diff(tt.want, l.took()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Without the leadership, nothing is removed.
func TestRemovalNeedsTheLeadership(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		l.leads = false
		for name, err := range map[string]error{"remove": l.RemovePeer(l.ctx, "p3", true), "leave": l.Leave(l.ctx, "p3"),
			"admit": l.AdmitPeer(l.ctx, "p3")} {
			if !errors.Is(err, outcome.ErrNotLeader) {
				t.Errorf("%s: got %v, want %v", name, err, outcome.ErrNotLeader)
			}
		}
		if got := l.took(); len(got) > 0 {
			t.Errorf("got %q, want nothing", got)
		}
	})
}

// lead runs the membership for a time.
func (l *lab) lead(d time.Duration) {
	ctx, cancel := context.WithTimeout(l.ctx, d)
	defer cancel()
	_ = l.Run(ctx, leader.NewTerm(3, nil))
}

// A leader that fails after the denial leaves the rest of the removal to the next one.
func TestNextLeaderFinishesRemoval(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		l.silent["p3"], l.fail = true, "remove p3"
		if err := l.RemovePeer(l.ctx, "p3", false); err == nil {
			t.Fatal("got no error of the change of the configuration")
		}
		l.took()
		l.fail = ""
		delete(l.running, "p3")
		l.lead(time.Second)
		want := []string{"remove p3", "commit remove_peer p3, denied false"}
		got := slices.DeleteFunc(l.took(), func(e string) bool { return !strings.Contains(e, "remove") })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events of the next leader (-want +got):\n%s", diff)
		}
	})
}

// A peer that has left is not added again while its process ends; a new process is.
func TestLeftPeerIsNotAddedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		if err := l.Leave(l.ctx, "p3"); err != nil {
			t.Fatal(err)
		}
		l.took()
		l.lead(time.Minute)
		if got := l.took(); slices.Contains(got, "add p3") {
			t.Errorf("got %q, want p3 not added", got)
		}
		l.start("p3", "second")
		l.lead(time.Minute)
		got := slices.DeleteFunc(l.took(), func(e string) bool { return !strings.Contains(e, "p3") })
		if diff := cmp.Diff([]string{"add p3", "allow p3 to vote", "promote p3"}, got); diff != "" {
			t.Errorf("events of the new process (-want +got):\n%s", diff)
		}
	})
}

// A voter that has lost its data votes no more until it has caught up, but only if the others are a
// majority.
func TestDemotion(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		l.start("p3", "second")
		l.silent["p2"] = true
		l.lead(time.Minute)
		if got := l.took(); slices.Contains(got, "demote p3") {
			t.Errorf("without a majority of the others: got %q, want the vote kept", got)
		}
		l.silent["p2"] = false
		l.lead(time.Minute)
		got := slices.DeleteFunc(l.took(), func(e string) bool { return !strings.Contains(e, "p3") })
		if diff := cmp.Diff([]string{"demote p3", "allow p3 to vote", "promote p3"}, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

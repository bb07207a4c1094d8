// Package founding forms a cluster of peers that have none, and keeps the permission to vote. It
// must not know how peers join later.
//
// Each empty peer watches gossip until it sees BootstrapExpect
// peers with the same number. It sorts them by id and derives the id of their cluster: the
// same peers always derive the same id, while other peers or other data directories derive
// another one. The first peer asks the others whether they would agree. A peer agrees only
// if it has derived the same id. If all agree, the first peer binds them: each stores the
// id and never agrees to another one, so two clusters cannot share a peer. Then the first
// peer bootstraps Raft. The others follow with the same configuration once gossip shows
// that, so the cluster survives the loss of the first.
package founding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/gossip"
	"github.com/holdfast-metal/holdfast/cluster/internal/identity"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	// settle is how long the set of founders must be unchanged before a peer acts on it.
	settle = 250 * time.Millisecond
	// promiseTime is how long a peer that promised one cluster id refuses others.
	promiseTime = 5 * time.Second
)

// Gossip knows the peers that run.
type Gossip interface {
	Peers() []gossip.Member
	Peer(id string) (gossip.Member, bool)
	// Changed returns a channel that is closed when a peer changes, or Notify is called.
	Changed() <-chan struct{}
	Notify()
}

// Identity is this peer's permanent record of itself.
type Identity interface {
	Get() identity.Record
	Update(change func(*identity.Record) error) error
}

// Config holds what the forming of a cluster depends on.
type Config struct {
	Self   string
	Expect int // how many peers must see each other
	// Meta returns the metadata that this peer gossips.
	Meta func() *internalv1.GossipMeta
	// HasState reports whether this peer has ever been part of a cluster, and ClusterID returns the
	// id of the cluster in its state.
	HasState  func() bool
	ClusterID func() string
	// Bootstrap writes Raft's first configuration.
	Bootstrap func(raft.Configuration) error
	// Ask asks a founder whether it would agree, or binds it.
	Ask func(ctx context.Context, id string, req *internalv1.AdmitRequest) error
	// Vote lets this peer vote and stand for election.
	Vote func()
	// Changed fires when the metadata of this peer changes.
	Changed *wait.Signal
	Scale   func(time.Duration) time.Duration
	Logger  *slog.Logger
}

// Founding is this peer's part in forming a cluster, and its permission to vote.
type Founding struct {
	cfg    Config
	ident  Identity
	gossip Gossip

	promise promise
}

// New returns the part of a peer. Run forms the cluster.
func New(cfg Config, i Identity, g Gossip) *Founding { return &Founding{cfg: cfg, ident: i, gossip: g} }

// promise is the cluster id that a founder would agree to.
type promise struct {
	mu    sync.Mutex
	id    string
	fs    []identity.Founder
	until time.Time
}

// make promises a cluster id, unless another one is promised.
func (p *promise) make(id string, fs []identity.Founder) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.id != id && time.Now().Before(p.until) {
		return fmt.Errorf("this peer has agreed to found cluster %s", p.id)
	}
	p.id, p.fs, p.until = id, fs, time.Now().Add(promiseTime)
	return nil
}

// kept returns the founders of a promised cluster id.
func (p *promise) kept(id string) ([]identity.Founder, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fs, p.id == id && time.Now().Before(p.until)
}

// founders returns the peers that would form a cluster, sorted by id. It returns nil if it
// must not or cannot be formed yet.
func founders(self *internalv1.GossipMeta, members []gossip.Member) []identity.Founder {
	var fs []identity.Founder
	for _, m := range members {
		if !m.Alive {
			continue
		}
		if m.Meta.GetBootstrapExpect() != self.GetBootstrapExpect() {
			if m.Meta.GetClusterId() != "" || m.Meta.GetBootstrapped() {
				return nil // a cluster exists already
			}
			continue
		}
		fs = append(fs, identity.Founder{ID: m.Meta.GetId(), Instance: m.Meta.GetInstance(), RaftAddr: m.Meta.GetRaftAddr()})
	}
	expect := int(self.GetBootstrapExpect())
	if expect == 0 || len(fs) < expect {
		return nil
	}
	slices.SortFunc(fs, func(a, b identity.Founder) int { return cmp.Compare(a.ID, b.ID) })
	fs = fs[:expect]
	id := formingID(fs)
	for _, m := range members {
		if c := m.Meta.GetClusterId(); m.Alive && (c != "" && c != id || c == "" && m.Meta.GetBootstrapped()) {
			return nil // a cluster exists already
		}
	}
	isSelf := func(f identity.Founder) bool { return f.ID == self.GetId() && f.Instance == self.GetInstance() }
	if !slices.ContainsFunc(fs, isSelf) {
		return nil // others form it; this peer joins
	}
	return fs
}

// formingID returns the id of the cluster that the founders form.
func formingID(fs []identity.Founder) string {
	var b strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&b, "%q %q %q\n", f.ID, f.Instance, f.RaftAddr)
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(b.String())).String()
}

// Run forms a cluster. It returns when the peer belongs to one.
func (fd *Founding) Run(ctx context.Context) error {
	var seen string
	since := time.Now()
	tick := time.NewTicker(fd.cfg.Scale(100 * time.Millisecond))
	defer tick.Stop()
	for !fd.cfg.HasState() {
		changed := fd.gossip.Changed()
		fs := fd.currentFounders()
		id := ""
		if fs != nil {
			id = formingID(fs)
		}
		if id != seen {
			seen, since = id, time.Now()
		}
		if fs != nil && (len(fs) == 1 || time.Since(since) >= settle) {
			if err := fd.form(ctx, fs, id); err != nil {
				fd.cfg.Logger.Info("cluster not formed yet", "error", err)
			}
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// replaced returns the founders of this peer's cluster that lost their data before it was
// formed.
func (fd *Founding) replaced() []string {
	return replaced(fd.ident.Get().Forming, fd.gossip.Peers())
}

// replaced returns the founders whose instance differs from the one that the others agreed
// to, so that the cluster can never form. It returns nil unless all founders are alive and
// none has a Raft log, because otherwise the cluster may have formed.
func replaced(fs []identity.Founder, members []gossip.Member) []string {
	var lost []string
	for _, f := range fs {
		i := slices.IndexFunc(members, func(m gossip.Member) bool { return m.Alive && m.Meta.GetId() == f.ID })
		if i < 0 || members[i].Meta.GetBootstrapped() {
			return nil
		}
		if members[i].Meta.GetInstance() != f.Instance {
			lost = append(lost, f.ID)
		}
	}
	return lost
}

// Why returns the reason why there is no cluster, for a peer without one.
func (fd *Founding) Why(seen []string) string {
	expect := fd.cfg.Expect
	lost := fd.replaced()
	switch {
	case len(lost) > 0:
		return fmt.Sprintf("the cluster cannot form: founders %v have lost their data since they agreed to form it: "+
			"stop the founders %v, move their data directories away and start them again",
			lost, fd.ident.Get().FounderIDs())
	case expect == 0:
		return fmt.Sprintf("this peer has no cluster yet: it waits for the leader of one to add it; peers seen: %v", seen)
	case len(seen) >= expect:
		return fmt.Sprintf("this peer has no cluster yet: its founders (%d) see each other, but have not formed it; "+
			"peers seen: %v",
			expect, seen)
	}
	return fmt.Sprintf("this peer has no cluster yet: one forms when all its founders (%d) see each other; peers seen: %v",
		expect, seen)
}

// currentFounders returns the founders that gossip shows, or those that this peer has
// agreed to.
func (fd *Founding) currentFounders() []identity.Founder {
	if rec := fd.ident.Get(); len(rec.Forming) > 0 {
		return rec.Forming
	}
	return founders(fd.cfg.Meta(), fd.gossip.Peers())
}

// form does this peer's part in forming the cluster.
func (fd *Founding) form(ctx context.Context, fs []identity.Founder, id string) error {
	if fs[0].ID == fd.cfg.Self {
		if err := fd.promised(id); err != nil {
			return err
		}
		if err := fd.askFounders(ctx, fs, id, true); err != nil {
			return err
		}
		if err := fd.agree(id); err != nil {
			return err
		}
		// failpoint: founder-bound
		if err := fd.askFounders(ctx, fs, id, false); err != nil {
			return err
		}
		// failpoint: founders-bound
		fd.cfg.Logger.Info("all founders agree, forming the cluster", "cluster", id, "peers", len(fs))
		return fd.bootstrapRaft(fs)
	}
	first, ok := fd.gossip.Peer(fs[0].ID)
	if ok && first.Meta.GetBootstrapped() && first.Meta.GetClusterId() == id && fd.ident.Get().ClusterID == id {
		return fd.bootstrapRaft(fs)
	}
	return nil
}

// askFounders asks every other founder whether it would agree, or binds it.
func (fd *Founding) askFounders(ctx context.Context, fs []identity.Founder, id string, prepare bool) error {
	var errs []error
	for _, f := range fs[1:] {
		call, cancel := context.WithTimeout(ctx, time.Second)
		err := fd.cfg.Ask(call, f.ID, &internalv1.AdmitRequest{Instance: f.Instance, ClusterId: id, Prepare: prepare})
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("ask founder %s: %w", f.ID, err))
		}
	}
	return errors.Join(errs...)
}

// promised makes this peer promise a cluster id, which it must have derived itself.
func (fd *Founding) promised(id string) error {
	fs := fd.currentFounders()
	if fs == nil || formingID(fs) != id {
		return errors.New("this peer does not see the same founders yet")
	}
	return fd.promise.make(id, fs)
}

// agree permanently makes this empty peer a founder of a cluster.
func (fd *Founding) agree(id string) error {
	fs, ok := fd.promise.kept(id)
	if !ok {
		if fs = fd.currentFounders(); fs == nil || formingID(fs) != id {
			return errors.New("this peer no longer sees the same founders")
		}
	}
	err := fd.ident.Update(func(r *identity.Record) error {
		if r.ClusterID != "" && r.ClusterID != id {
			return fmt.Errorf("this peer has agreed to found cluster %s", r.ClusterID)
		}
		r.ClusterID, r.Admitted, r.Forming = id, true, fs
		return nil
	})
	if err != nil {
		return err
	}
	// failpoint: founder-agreed
	fd.cfg.Vote()
	return nil
}

// bootstrapRaft writes the first configuration. If one exists already, the leader was
// faster.
func (fd *Founding) bootstrapRaft(fs []identity.Founder) error {
	var c raft.Configuration
	for _, f := range fs {
		c.Servers = append(c.Servers, raft.Server{
			Suffrage: raft.Voter,
			ID:       raft.ServerID(f.ID),
			Address:  raft.ServerAddress(f.RaftAddr),
		})
	}
	err := fd.cfg.Bootstrap(c)
	if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		return fmt.Errorf("bootstrap raft: %w", err)
	}
	// failpoint: raft-bootstrapped
	fd.gossip.Notify()
	fd.cfg.Changed.Fire()
	return nil
}

// Admit allows this peer to vote, because it is a founder or the leader has seen it catch up.
func (fd *Founding) Admit(req *internalv1.AdmitRequest) error {
	rec := fd.ident.Get()
	if req.GetInstance() != rec.Instance {
		return fmt.Errorf("this is instance %s of peer %s, not %s", rec.Instance, fd.cfg.Self, req.GetInstance())
	}
	if rec.ClusterID != "" && rec.ClusterID != req.GetClusterId() {
		return fmt.Errorf("this peer belongs to cluster %s, not %s", rec.ClusterID, req.GetClusterId())
	}
	if rec.Admitted {
		return nil
	}
	if !fd.cfg.HasState() {
		if req.GetPrepare() {
			return fd.promised(req.GetClusterId())
		}
		return fd.agree(req.GetClusterId())
	}
	if id := fd.cfg.ClusterID(); id != req.GetClusterId() {
		return fmt.Errorf("this peer's state belongs to cluster %q, not %s", id, req.GetClusterId())
	}
	err := fd.ident.Update(func(r *identity.Record) error {
		r.Admitted, r.ClusterID, r.AdmittedAt, r.Stale = true, req.GetClusterId(), req.GetIndex(), ""
		return nil
	})
	if err != nil {
		return err
	}
	// failpoint: admission-stored
	fd.cfg.Vote()
	return nil
}

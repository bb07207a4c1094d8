package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/gossip"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Bootstrap of a cluster. Each empty peer watches gossip until it sees BootstrapExpect
// peers with the same number. It sorts them by id and derives the id of their cluster: the
// same peers always derive the same id, while other peers or other data directories derive
// another one. The first peer asks the others whether they would agree. A peer agrees only
// if it has derived the same id. If all agree, the first peer binds them: each stores the
// id and never agrees to another one, so two clusters cannot share a peer. Then the first
// peer bootstraps Raft. The others follow with the same configuration once gossip shows
// that, so the cluster survives the loss of the first.

const (
	// settle is how long the set of founders must be unchanged before a peer acts on it.
	settle = 250 * time.Millisecond
	// promiseTime is how long a peer that promised one cluster id refuses others.
	promiseTime = 5 * time.Second
)

// founding is this peer's part in forming a cluster, and its permission to vote.
type founding struct {
	n *Node

	promise promise
}

// promise is the cluster id that a founder would agree to.
type promise struct {
	mu    sync.Mutex
	id    string
	fs    []founder
	until time.Time
}

// make promises a cluster id, unless another one is promised.
func (p *promise) make(id string, fs []founder) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.id != id && time.Now().Before(p.until) {
		return fmt.Errorf("this peer has agreed to found cluster %s", p.id)
	}
	p.id, p.fs, p.until = id, fs, time.Now().Add(promiseTime)
	return nil
}

// kept returns the founders of a promised cluster id.
func (p *promise) kept(id string) ([]founder, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fs, p.id == id && time.Now().Before(p.until)
}

// founders returns the peers that would form a cluster, sorted by id. It returns nil if it
// must not or cannot be formed yet.
func founders(self *internalv1.GossipMeta, members []gossip.Member) []founder {
	var fs []founder
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
		fs = append(fs, founder{ID: m.Meta.GetId(), Instance: m.Meta.GetInstance(), RaftAddr: m.Meta.GetRaftAddr()})
	}
	expect := int(self.GetBootstrapExpect())
	if expect == 0 || len(fs) < expect {
		return nil
	}
	slices.SortFunc(fs, func(a, b founder) int { return cmp.Compare(a.ID, b.ID) })
	fs = fs[:expect]
	id := formingID(fs)
	for _, m := range members {
		if c := m.Meta.GetClusterId(); m.Alive && (c != "" && c != id || c == "" && m.Meta.GetBootstrapped()) {
			return nil // a cluster exists already
		}
	}
	isSelf := func(f founder) bool { return f.ID == self.GetId() && f.Instance == self.GetInstance() }
	if !slices.ContainsFunc(fs, isSelf) {
		return nil // others form it; this peer joins
	}
	return fs
}

// formingID returns the id of the cluster that the founders form.
func formingID(fs []founder) string {
	var b strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&b, "%q %q %q\n", f.ID, f.Instance, f.RaftAddr)
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(b.String())).String()
}

// bootstrap forms a cluster. It returns when the peer belongs to one.
func (fd *founding) bootstrap(ctx context.Context) error {
	var seen string
	since := time.Now()
	tick := time.NewTicker(fd.n.cfg.scale(100 * time.Millisecond))
	defer tick.Stop()
	for !fd.n.hasRaftState() {
		changed := fd.n.gossip.Changed()
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
				fd.n.log.Info("cluster not formed yet", "error", err)
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
func (fd *founding) replaced() []string {
	return replaced(fd.n.ident.get().Forming, fd.n.gossip.Peers())
}

// replaced returns the founders whose instance differs from the one that the others agreed
// to, so that the cluster can never form. It returns nil unless all founders are alive and
// none has a Raft log, because otherwise the cluster may have formed.
func replaced(fs []founder, members []gossip.Member) []string {
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

func ids(fs []founder) []string {
	var out []string
	for _, f := range fs {
		out = append(out, f.ID)
	}
	return out
}

// why returns the reason why there is no cluster, for a peer without one.
func (fd *founding) why(seen []string) string {
	expect := fd.n.cfg.BootstrapExpect
	lost := fd.replaced()
	switch {
	case len(lost) > 0:
		return fmt.Sprintf("the cluster cannot form: founders %v have lost their data since they agreed to form it: "+
			"stop the founders %v, move their data directories away and start them again",
			lost, ids(fd.n.ident.get().Forming))
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
func (fd *founding) currentFounders() []founder {
	if rec := fd.n.ident.get(); len(rec.Forming) > 0 {
		return rec.Forming
	}
	return founders(fd.n.gossipMeta(), fd.n.gossip.Peers())
}

// form does this peer's part in forming the cluster.
func (fd *founding) form(ctx context.Context, fs []founder, id string) error {
	if fs[0].ID == fd.n.cfg.NodeID {
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
		fd.n.log.Info("all founders agree, forming the cluster", "cluster", id, "peers", len(fs))
		return fd.bootstrapRaft(fs)
	}
	first, ok := fd.n.gossip.Peer(fs[0].ID)
	if ok && first.Meta.GetBootstrapped() && first.Meta.GetClusterId() == id && fd.n.ident.get().ClusterID == id {
		return fd.bootstrapRaft(fs)
	}
	return nil
}

// askFounders asks every other founder whether it would agree, or binds it.
func (fd *founding) askFounders(ctx context.Context, fs []founder, id string, prepare bool) error {
	var errs []error
	for _, f := range fs[1:] {
		c, err := fd.n.conns.Peer(f.ID)
		if err == nil {
			call, cancel := context.WithTimeout(ctx, time.Second)
			_, err = c.Admit(call, &internalv1.AdmitRequest{Instance: f.Instance, ClusterId: id, Prepare: prepare})
			cancel()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("ask founder %s: %w", f.ID, err))
		}
	}
	return errors.Join(errs...)
}

// promised makes this peer promise a cluster id, which it must have derived itself.
func (fd *founding) promised(id string) error {
	fs := fd.currentFounders()
	if fs == nil || formingID(fs) != id {
		return errors.New("this peer does not see the same founders yet")
	}
	return fd.promise.make(id, fs)
}

// agree permanently makes this empty peer a founder of a cluster.
func (fd *founding) agree(id string) error {
	fs, ok := fd.promise.kept(id)
	if !ok {
		if fs = fd.currentFounders(); fs == nil || formingID(fs) != id {
			return errors.New("this peer no longer sees the same founders")
		}
	}
	err := fd.n.ident.update(func(r *identityRecord) error {
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
	fd.admit()
	return nil
}

// bootstrapRaft writes the first configuration. If one exists already, the leader was
// faster.
func (fd *founding) bootstrapRaft(fs []founder) error {
	var c raft.Configuration
	for _, f := range fs {
		c.Servers = append(c.Servers, raft.Server{
			Suffrage: raft.Voter,
			ID:       raft.ServerID(f.ID),
			Address:  raft.ServerAddress(f.RaftAddr),
		})
	}
	err := fd.n.raft.BootstrapCluster(c).Error()
	if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		return fmt.Errorf("bootstrap raft: %w", err)
	}
	// failpoint: raft-bootstrapped
	fd.n.gossip.Notify()
	fd.n.metaChanged.Fire()
	return nil
}

// hasRaftState reports whether this peer has ever been part of a cluster.
func (n *Node) hasRaftState() bool { return n.raft.LastIndex() > 0 || n.raft.CurrentTerm() > 0 }

func (fd *founding) admitFor(req *internalv1.AdmitRequest) error {
	rec := fd.n.ident.get()
	if req.GetInstance() != rec.Instance {
		return fmt.Errorf("this is instance %s of peer %s, not %s", rec.Instance, fd.n.cfg.NodeID, req.GetInstance())
	}
	if rec.ClusterID != "" && rec.ClusterID != req.GetClusterId() {
		return fmt.Errorf("this peer belongs to cluster %s, not %s", rec.ClusterID, req.GetClusterId())
	}
	if rec.Admitted {
		return nil
	}
	if !fd.n.hasRaftState() {
		if req.GetPrepare() {
			return fd.promised(req.GetClusterId())
		}
		return fd.agree(req.GetClusterId())
	}
	if id := fd.n.fsm.View().Meta().GetClusterId(); id != req.GetClusterId() {
		return fmt.Errorf("this peer's state belongs to cluster %q, not %s", id, req.GetClusterId())
	}
	err := fd.n.ident.update(func(r *identityRecord) error {
		r.Admitted, r.ClusterID, r.AdmittedAt, r.Stale = true, req.GetClusterId(), req.GetIndex(), ""
		return nil
	})
	if err != nil {
		return err
	}
	// failpoint: admission-stored
	fd.admit()
	return nil
}

// admit lets this peer vote and stand for election. Its identity already records that.
func (fd *founding) admit() {
	if !fd.n.gate.Admit(true) {
		fd.n.log.Info("this peer may vote")
		fd.n.reload(fd.n.cfg.awake)
	}
	fd.n.metaChanged.Fire()
}

package marks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// ErrStale means that a peer's data directory is older than what the peer once acknowledged.
var ErrStale = errors.New("the data directory of this peer is older than what the peer has acknowledged")

const (
	renewEvery   = time.Minute
	compareEvery = 5 * time.Second
	callTimeout  = 2 * time.Second
)

// Identity is what a data directory says about its peer.
type Identity struct {
	Cluster    string // empty before the peer has learned it
	Instance   string
	Admitted   bool // the instance may vote
	AdmittedAt uint64
}

// Config configures a Keeper.
type Config struct {
	Self  string
	Store Store
	// Identity returns the peer's identity.
	Identity func() Identity
	// LoseVote makes the directory that of a peer that has lost its data: a new instance, which may
	// not vote. why is for people.
	LoseVote func(why string) error
	// Note records how far the log reaches on disk. It is called with each mark; nil: not.
	Note func() error
	// File is the file in the directory whose time of creation shows that the directory is a copy.
	// It may be empty.
	File string
	// Scale multiplies the intervals between two comparisons; 0 is 1.
	Scale  float64
	Logger *slog.Logger
}

// Keeper keeps the marks of a peer and compares them with those of others.
type Keeper struct {
	cfg   Config
	book  *book
	stale chan error // why this directory must not vote, once

	mu sync.Mutex
	// copied is true until it is known whether this directory, a copy, is old. Until then its peer
	// does not vote.
	copied   bool
	compared map[string]bool // the peers that remember nothing newer
	resume   func()

	refused atomic.Uint64 // comparisons that found a directory too old, of this peer or another
}

// Open reads the marks of a directory and adds one. It returns an error if the directory has files
// of another peer. If the directory belongs to an instance that may vote, but its marks to another
// one, the instance loses its vote.
func Open(cfg Config) (*Keeper, error) {
	k := &Keeper{cfg: cfg, stale: make(chan error, 1), compared: map[string]bool{}}
	var err error
	if k.book, err = openBook(cfg.Store, cfg.Self); err != nil {
		return nil, err
	}
	rec, id := k.book.get(), cfg.Identity()
	if own := rec.GetOwn(); own != nil && own.GetInstance() != id.Instance && id.Admitted {
		err := cfg.LoseVote("its identity.json and its raft log are of different times")
		if err != nil {
			return nil, err
		}
		cfg.Logger.Error("identity.json and the raft log are of different times: one of them was put back from a copy; "+
			"this peer does not vote before it has caught up with the others", "instance", id.Instance)
		id = cfg.Identity()
	}
	now := k.born()
	k.copied = id.Admitted && rec.GetBorn() != 0 && now != 0 && !same(rec.GetBorn(), now)
	stopped := rec.GetStopped()
	err = k.book.change(func(r *internalv1.MarkBook) bool {
		r.PeerId, r.Stopped = cfg.Self, stopped && k.copied
		if r.GetOwn().GetInstance() != id.Instance {
			r.Own = &internalv1.Marks{Instance: id.Instance}
		}
		mark(r)
		if !k.copied && now != 0 {
			r.Born = now
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// Reset begins new marks for an instance, and accepts the files of the directory as they are. The
// peer must not run.
func Reset(store Store, self, instance, file string) error {
	b, err := openBook(store, self)
	if err != nil {
		return err
	}
	return b.change(func(r *internalv1.MarkBook) bool {
		r.PeerId, r.Own, r.Born = self, add(&internalv1.Marks{Instance: instance}, random()), born(file)
		r.ClusterId, r.Known, r.Stopped = "", nil, false
		return true
	})
}

func (k *Keeper) born() int64 {
	if k.cfg.File == "" {
		return 0
	}
	return born(k.cfg.File)
}

// same reports whether two times of creation may be of one file. Some file systems keep only
// seconds on disk.
func same(a, b int64) bool {
	const second = int64(time.Second)
	return a == b || a/second == b/second && (a%second == 0 || b%second == 0)
}

// Why returns why the peer of a copy does not vote yet, or "".
func (k *Keeper) Why() string {
	if !k.Copied() {
		return ""
	}
	return "its data directory is a copy: it does not vote before it has compared it with what the other peers " +
		"remember: " +
		"start them too"
}

// Copied reports whether this directory is a copy of which it is not known yet whether it is old.
// Its peer must not vote then.
func (k *Keeper) Copied() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.copied
}

// JudgeCopy decides about a copy as far as that is possible without other peers. voters are the
// other voters. resume is called when the peer may vote after all.
//
// A copy of a directory whose peer had stopped is as good as the original, unless the original has
// been used since. Then the others remember a later mark: not all of them, so this peer must ask as
// many as it takes to meet one of each majority. A copy of a directory in use may lack what its
// peer acknowledged since the last mark, and is old in any case.
func (k *Keeper) JudgeCopy(voters []string, resume func()) error {
	if !k.Copied() {
		return nil
	}
	switch {
	case len(voters) == 0:
		k.cfg.Logger.Warn("the data directory is a copy: if the original was used after it was copied, " +
			"what came later is lost")
	case k.book.get().GetStopped():
		k.mu.Lock()
		k.resume = resume
		k.mu.Unlock()
		k.cfg.Logger.Warn("the data directory is a copy: this peer does not vote before it has compared it with " +
			"what the other peers remember")
		return nil
	default:
		k.cfg.Logger.Error("the data directory is a copy that was made while the peer ran, or after it was killed: "+
			"this peer does not vote before it has caught up with the others", "voters", voters)
		return k.lose("it is a copy that was made while the peer ran, or after it was killed", nil)
	}
	if err := k.bind(); err != nil {
		return err
	}
	resume()
	return nil
}

// lose makes this directory that of a peer that has lost its data. If err is set, the peer must
// end.
func (k *Keeper) lose(why string, err error) error {
	k.mu.Lock()
	k.copied = false
	k.mu.Unlock()
	if lost := k.cfg.LoseVote(why); lost != nil {
		return errors.Join(err, lost)
	}
	if renewed := k.bind(); renewed != nil {
		return errors.Join(err, renewed)
	}
	return err
}

// bind accepts the files of this directory as they are now, and begins new marks for a new
// instance.
func (k *Keeper) bind() error {
	now, id := k.born(), k.cfg.Identity()
	k.mu.Lock()
	k.copied = false
	k.mu.Unlock()
	return k.book.change(func(r *internalv1.MarkBook) bool {
		if r.Born, r.Stopped = now, false; r.GetOwn().GetInstance() != id.Instance {
			r.Own = add(&internalv1.Marks{Instance: id.Instance}, random())
		}
		return true
	})
}

// own returns the marks of this peer's directory.
func (k *Keeper) own(id Identity) *internalv1.Marks {
	m := k.book.get().GetOwn()
	if m.GetInstance() != id.Instance {
		return nil // a new instance, whose marks are being written
	}
	return &internalv1.Marks{Instance: m.GetInstance(), AdmittedAt: id.AdmittedAt, Count: m.GetCount(), Ids: m.GetIds()}
}

// Greeting returns what this peer says to another at the beginning of a connection. It first
// records that the newest mark is told. If it cannot, the greeting is empty and proves nothing.
func (k *Keeper) Greeting() *internalv1.Greeting {
	id := k.cfg.Identity()
	if id.Admitted && id.Cluster != "" {
		if err := k.book.tell(id.Cluster); err != nil {
			k.cfg.Logger.Error("the marks of the data directory are not told to another peer", "error", err)
			return &internalv1.Greeting{}
		}
	}
	rec := k.book.get()
	g := &internalv1.Greeting{ClusterId: id.Cluster, PeerId: k.cfg.Self, Admitted: id.Admitted, Marks: k.own(id)}
	if rec.GetClusterId() == id.Cluster {
		g.Known = others(rec)
	}
	return g
}

// Known returns the newest mark of a peer that this one remembers; nil if there is none.
func (k *Keeper) Known(peer string) *internalv1.Marks {
	rec := k.book.get()
	if rec.GetClusterId() != k.cfg.Identity().Cluster {
		return nil
	}
	return Newest(rec.GetKnown()[peer])
}

// Check returns ErrStale if this peer's directory lacks a mark that another peer remembers of it.
// The peer has lost its vote then, and must end.
func (k *Keeper) Check(by string, remembered *internalv1.Marks) error {
	id := k.cfg.Identity()
	if own := k.own(id); own == nil || !id.Admitted || !Stale(own, remembered) {
		return nil
	}
	k.refused.Add(1)
	why := fmt.Sprintf("peer %s remembers a later state of it (mark %d)", by, remembered.GetCount())
	err := k.lose(why, fmt.Errorf("%w: %s, so it was put back from a copy, or its disk was reverted to a snapshot: "+
		"it has lost its vote; start the peer again, and it catches up with the others first", ErrStale, why))
	select {
	case k.stale <- err:
	default:
	}
	return err
}

// Meet compares this peer's directory and another peer's, and remembers the other's marks. It
// returns an error if one of the two must not vote, so that the peers must not talk to each other.
// A greeting without a name proves nothing.
func (k *Keeper) Meet(g *internalv1.Greeting) error {
	id, by := k.cfg.Identity(), g.GetPeerId()
	if by == "" || by == k.cfg.Self || id.Cluster == "" || g.GetClusterId() != id.Cluster {
		return nil
	}
	if err := k.Check(by, g.GetKnown()[k.cfg.Self]); err != nil {
		return err
	}
	rec := k.book.get()
	if rec.GetClusterId() == id.Cluster && g.GetAdmitted() && Stale(g.GetMarks(), rec.GetKnown()[by]) {
		k.refused.Add(1)
		return fmt.Errorf("the data directory of peer %s is older than what it has acknowledged: it lacks mark %d, which "+
			"this peer remembers, so it must lose its vote first", by, rec.GetKnown()[by].GetCount())
	}
	told := maps.Clone(g.GetKnown())
	delete(told, k.cfg.Self)
	delete(told, by)
	if g.GetAdmitted() {
		if told == nil {
			told = map[string]*internalv1.Marks{}
		}
		told[by] = g.GetMarks()
	}
	if err := k.book.learn(id.Cluster, told); err != nil {
		return err
	}
	k.mu.Lock()
	k.compared[by] = true
	k.mu.Unlock()
	return nil
}

// Refused returns how often a directory was found too old, of this peer or of another.
func (k *Keeper) Refused() uint64 { return k.refused.Load() }

// Others is what a running Keeper knows of the other peers.
type Others struct {
	// Changed returns a channel that is closed when a peer starts, stops or moves.
	Changed func() <-chan struct{}
	// Voters returns the other voters, and Peers all other peers of the configuration.
	Voters, Peers func() []string
	// Meet exchanges greetings with a peer.
	Meet func(ctx context.Context, peer string, g *internalv1.Greeting) (*internalv1.Greeting, error)
}

// Run renews the mark of this directory and compares it with what the other peers remember, until
// ctx ends. It returns ErrStale if the directory must not vote.
func (k *Keeper) Run(ctx context.Context, o Others) error {
	every := compareEvery
	if k.cfg.Scale > 0 {
		every = time.Duration(float64(every) * k.cfg.Scale)
	}
	renew, compare := time.NewTicker(renewEvery), time.NewTicker(every)
	defer renew.Stop()
	defer compare.Stop()
	for {
		changed := o.Changed()
		k.meetAll(ctx, o)
		if err := k.decide(o.Voters()); err != nil {
			return err
		}
		select {
		case err := <-k.stale:
			return err
		case <-changed:
		case <-compare.C:
		case <-renew.C:
			if err := k.renew(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// renew adds a mark.
func (k *Keeper) renew() error {
	if k.cfg.Note != nil {
		if err := k.cfg.Note(); err != nil {
			return err
		}
	}
	return k.book.change(func(r *internalv1.MarkBook) bool { mark(r); return true })
}

// Stop records that the peer has stopped, and acknowledges nothing any more.
func (k *Keeper) Stop() error {
	if k.Copied() {
		return nil // it stays a copy
	}
	return k.book.change(func(r *internalv1.MarkBook) bool { r.Stopped = true; return true })
}

// meetAll exchanges greetings with all other peers that answer.
func (k *Keeper) meetAll(ctx context.Context, o Others) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, peer := range o.Peers() {
		wg.Go(func() {
			var err error
			if !k.book.told() { // a peer that is down must not use up marks
				_, err = o.Meet(ctx, peer, &internalv1.Greeting{PeerId: k.cfg.Self})
			}
			var g *internalv1.Greeting
			if err == nil {
				g, err = o.Meet(ctx, peer, k.Greeting())
			}
			if err == nil && g.GetPeerId() == peer {
				err = k.Meet(g)
			}
			if err != nil && ctx.Err() == nil {
				k.cfg.Logger.Debug("marks not compared", "peer", peer, "error", err)
			}
		})
	}
	wg.Wait()
}

// decide lets the peer of a copy vote once it has compared it with enough other peers: whatever
// majority it has acknowledged something with, one of them is among those.
func (k *Keeper) decide(voters []string) error {
	k.mu.Lock()
	met := 0
	for _, v := range voters {
		if k.compared[v] {
			met++
		}
	}
	all := len(voters) + 1
	majority := all/2 + 1
	may := k.copied && k.resume != nil && met > all-majority
	resume := k.resume
	k.mu.Unlock()
	if !may {
		return nil
	}
	if err := k.bind(); err != nil {
		return err
	}
	k.cfg.Logger.Info("the copy of the data directory is as new as the other peers remember", "voters", voters)
	resume()
	return nil
}

package fault

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"net"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

// takeTime bounds the wait until all peers use the contents of their files. They poll every
// 5 s, later on a busy machine, and all listeners of each peer are checked for each step.
const takeTime = time.Minute

// rotateTries is how often a rotation is repeated if the leader changes meanwhile. Then the
// cluster is left alone for a while: if it elects then, too, the machine is too busy for a
// verdict.
const (
	rotateTries = 2
	aloneTime   = 15 * time.Second
)

// rotateCertificates gives each peer in turn a new certificate of the same CA. It must
// cause no election.
func rotateCertificates(ctx context.Context, c *harness.Cluster, rng *mrand.Rand) (Heal, error) {
	return nothing, calmly(ctx, c, func() error {
		now, _ := c.CAs()
		for _, i := range rng.Perm(len(c.Peers())) {
			if err := certify(ctx, c, c.Peers()[i], now, rng.IntN(2) == 0); err != nil {
				return err
			}
		}
		return c.CertifyAdmin(now)
	})
}

// rotateCA replaces the CA, and rotateGossip the gossip key, by the steps in
// docs/security.md. rotateKeys does both in the same steps.
func rotateCA(ctx context.Context, c *harness.Cluster, rng *mrand.Rand) (Heal, error) {
	return rotate(ctx, c, rng, newCA(c, rng))
}

func rotateGossip(ctx context.Context, c *harness.Cluster, rng *mrand.Rand) (Heal, error) {
	g, err := newGossipKey(c)
	if err != nil {
		return nil, err
	}
	return rotate(ctx, c, rng, g)
}

func rotateKeys(ctx context.Context, c *harness.Cluster, rng *mrand.Rand) (Heal, error) {
	g, err := newGossipKey(c)
	if err != nil {
		return nil, err
	}
	return rotate(ctx, c, rng, g, newCA(c, rng))
}

// rotation is a change of files in three steps. Each step is finished on every peer before
// the next one.
type rotation interface {
	// write changes the files of a peer, and taken blocks until the peer uses them.
	write(step int, p *localcluster.Peer) error
	taken(ctx context.Context, step int, p *localcluster.Peer) error
	// done does the rest for the clients of the cluster.
	done(step int) error
}

const steps = 3

func rotate(ctx context.Context, c *harness.Cluster, rng *mrand.Rand, all ...rotation) (Heal, error) {
	seen := watchGossip(ctx, c)
	err := calmly(ctx, c, func() error {
		for step := range steps {
			if err := oneStep(ctx, c, rng, step, all); err != nil {
				return fmt.Errorf("step %d: %w", step+1, err)
			}
		}
		return nil
	})
	if err := errors.Join(err, seen()); err != nil {
		return nil, err
	}
	// Existing connections stayed open. One peer loses all of its connections, and has to
	// open new ones.
	p := anyPeer(c, rng)
	return p.Start, p.Kill()
}

func oneStep(ctx context.Context, c *harness.Cluster, rng *mrand.Rand, step int, all []rotation) error {
	for _, i := range rng.Perm(len(c.All())) {
		for _, r := range all {
			if err := r.write(step, c.All()[i]); err != nil {
				return err
			}
		}
	}
	within, stop := context.WithTimeout(ctx, takeTime)
	defer stop()
	for _, p := range c.Peers() {
		for _, r := range all {
			if err := r.taken(within, step, p); err != nil {
				return fmt.Errorf("peer %s: %w", p.ID, err)
			}
		}
	}
	for _, r := range all {
		if err := r.done(step); err != nil {
			return err
		}
	}
	return nil
}

// calmly runs do, which must not change the leader.
func calmly(ctx context.Context, c *harness.Cluster, do func() error) error {
	var before, after uint64
	for range rotateTries {
		var err error
		if before, err = c.Term(ctx); err != nil {
			return err
		}
		if err = do(); err != nil {
			return err
		}
		if after, err = c.Term(ctx); err != nil || after == before {
			return err
		}
		c.Log.Warn("there was an election meanwhile, will retry", "before", before, "after", after)
	}
	if err := wait.Sleep(ctx, aloneTime); err != nil {
		return err
	}
	now, err := c.Term(ctx)
	if err == nil && now == after {
		return fmt.Errorf("each of %d rotations caused an election, the last one from term %d to %d, "+
			"and there was none in %s without", rotateTries, before, after, aloneTime)
	}
	c.Log.Warn("there are elections without a rotation too: the machine is too busy for a verdict",
		"before", after, "after", now)
	return err
}

// certify issues a certificate of a peer and blocks until the peer presents it.
func certify(ctx context.Context, c *harness.Cluster, p *localcluster.Peer, by *issue.CA, keyFirst bool) error {
	want, err := c.Certify(p, by, keyFirst)
	if err != nil {
		return err
	}
	return until(ctx, func() error {
		for _, addr := range []string{p.GRPCAddr, p.HTTPAddr} {
			got, err := c.Meet(ctx, addr, by, "")
			if err != nil {
				return err
			}
			if got.SerialNumber.Cmp(want.SerialNumber) != 0 {
				return fmt.Errorf("peer %s presents certificate %x at %s, its file has %x", p.ID, got.SerialNumber,
					addr, want.SerialNumber)
			}
		}
		return nil
	})
}

// until calls try until it returns no error.
func until(ctx context.Context, try func() error) error {
	ctx, stop := context.WithTimeout(ctx, takeTime)
	defer stop()
	var last error
	for {
		err := try()
		if err == nil {
			return nil
		}
		var timeout net.Error // that the time is up explains little
		timedOut := errors.As(err, &timeout) && timeout.Timeout()
		if last == nil || ctx.Err() == nil && !timedOut {
			last = err
		}
		if werr := wait.Sleep(ctx, 100*time.Millisecond); werr != nil {
			return fmt.Errorf("it took longer than %s: %w", takeTime, last)
		}
	}
}

// caRotation replaces the CA: both are trusted, then the new one certifies, then only the
// new one is trusted.
type caRotation struct {
	c        *harness.Cluster
	rng      *mrand.Rand
	old, new *issue.CA
	want     map[*localcluster.Peer]string // serial number of the new certificate
}

func newCA(c *harness.Cluster, rng *mrand.Rand) *caRotation {
	now, next := c.CAs()
	return &caRotation{c: c, rng: rng, old: now, new: next, want: map[*localcluster.Peer]string{}}
}

func (r *caRotation) write(step int, p *localcluster.Peer) error {
	switch step {
	case 0:
		return r.c.Trust(p, r.old, r.new)
	case 1:
		cert, err := r.c.Certify(p, r.new, r.rng.IntN(2) == 0)
		if err == nil {
			r.want[p] = cert.SerialNumber.Text(16)
		}
		return err
	}
	return r.c.Trust(p, r.new)
}

func (r *caRotation) taken(ctx context.Context, step int, p *localcluster.Peer) error {
	return until(ctx, func() error {
		switch step {
		case 0:
			return r.accepted(ctx, p, r.old, r.new)
		case 1:
			cert, err := r.c.Meet(ctx, p.GRPCAddr, r.new, "")
			if err == nil && cert.SerialNumber.Text(16) != r.want[p] {
				err = fmt.Errorf("it presents certificate %x, its file has %s", cert.SerialNumber, r.want[p])
			}
			return err
		}
		return errors.Join(r.accepted(ctx, p, r.new), r.refused(ctx, p))
	})
}

// accepted connects to all listeners of a peer with certificates of some CAs: as a client,
// or as another peer if the listener accepts only peers.
func (r *caRotation) accepted(ctx context.Context, p *localcluster.Peer, cas ...*issue.CA) error {
	for _, ca := range cas {
		for _, door := range r.doors(p) {
			if _, err := r.c.Meet(ctx, door.addr, ca, door.as); err != nil {
				return fmt.Errorf("%s of CA %x: %w", door.addr, ca.Cert.SerialNumber, err)
			}
		}
	}
	return nil
}

// refused checks that no listener accepts the old CA.
func (r *caRotation) refused(ctx context.Context, p *localcluster.Peer) error {
	for _, door := range r.doors(p) {
		switch _, err := r.c.Meet(ctx, door.addr, r.old, door.as); {
		case err == nil:
			return fmt.Errorf("%s %s", door.addr, AcceptsOldCA)
		case !errors.Is(err, harness.ErrRefused):
			return fmt.Errorf("%s, with a certificate of the old CA: %w", door.addr, err)
		}
	}
	return nil
}

type door struct{ addr, as string }

func (r *caRotation) doors(p *localcluster.Peer) []door {
	other := r.c.Peers()[0]
	if other == p {
		other = r.c.Peers()[1]
	}
	return []door{{p.GRPCAddr, ""}, {p.HTTPAddr, ""}, {p.GRPCAddr, other.ID}, {p.RaftAddr, other.ID}}
}

func (r *caRotation) done(step int) error {
	switch step {
	case 1:
		return r.c.CertifyAdmin(r.new)
	case 2:
		r.c.TurnCAs()
		r.old, r.new = r.new, r.old // for a possible repetition
	}
	return nil
}

// newKey returns a gossip key.
func newKey() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	return base64.StdEncoding.EncodeToString(key)
}

package health

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The status of a peer that does not answer takes half a second, so it is kept for a moment.
const (
	keep       = 2 * time.Second
	askTimeout = 3 * time.Second
)

// Cache keeps the last status of the cluster. It is the same for all users.
type Cache struct {
	now func() time.Time
	one singleflight.Group

	mu   sync.Mutex
	at   time.Time
	last *holdfastv1.ClusterStatus
}

// NewCache returns an empty cache.
func NewCache(now func() time.Time) *Cache { return &Cache{now: now} }

// Status returns the status of the cluster from the view of this peer. The caller must not
// change it.
func (c *Cache) Status(
	ctx context.Context, from holdfastv1.ClusterServiceClient,
) (*holdfastv1.ClusterStatus, error) {
	c.mu.Lock()
	st, at := c.last, c.at
	c.mu.Unlock()
	if st != nil && c.now().Sub(at) < keep {
		return st, nil
	}
	got, err, _ := c.one.Do("", func() (any, error) {
		// Other requests wait for this status, so it must survive the cancellation of the first
		// one.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		st, err := from.GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.last, c.at = st, c.now()
		return st, nil
	})
	if err != nil {
		return nil, err
	}
	return got.(*holdfastv1.ClusterStatus), nil //nolint:forcetypeassert // the function above returns one
}

// Peers is the number of peers of a cluster that answer.
type Peers struct {
	Alive, All int
	Missing    []string // ids of peers that do not answer, or are stopping
	MayFail    int      // peers that may fail without losing the quorum
	Leader     string
}

// PeersOf counts the peers of the Raft configuration.
func PeersOf(st *holdfastv1.ClusterStatus) Peers {
	p := Peers{MayFail: int(st.GetFailureTolerance()), Leader: st.GetLeader()}
	for _, x := range st.GetPeers() {
		if x.GetSuffrage() == "none" {
			continue
		}
		p.All++
		if x.GetAlive() && x.GetError() == "" || x.GetId() == st.GetAnsweredBy() {
			p.Alive++
		} else {
			p.Missing = append(p.Missing, x.GetId())
		}
	}
	return p
}

// String returns "2 of 3".
func (p Peers) String() string { return fmt.Sprintf("%d of %d", p.Alive, p.All) }

// State is the state whose colour the peers have: bad without a leader, maintenance if a peer is
// missing, or "".
func (p Peers) State() string {
	switch {
	case p.Leader == "":
		return "bad"
	case p.Alive < p.All:
		return "maintenance"
	}
	return "in_service"
}

// Tolerance returns how many peers may fail, in words.
func (p Peers) Tolerance() string {
	switch {
	case p.Leader == "":
		return "peers alive, no leader"
	case p.All == 1:
		return "peer alive"
	}
	return fmt.Sprintf("peers alive, %d may fail", p.MayFail)
}

// NoLeader returns a sentence for a page of a peer that knows no leader. It names the peers that
// do not answer.
func NoLeader(st *holdfastv1.ClusterStatus) string {
	text := "No leader"
	if why, ok := strings.CutPrefix(st.GetProblem(), "no leader: "); ok {
		text += ": " + why
	} else if missing := PeersOf(st).Missing; len(missing) > 0 {
		text += ": " + strings.Join(missing, " and ") + " do not answer"
	}
	if st.GetAnsweredBy() != "" {
		text += ". This page shows the state of " + st.GetAnsweredBy()
	}
	return text + ". Changes wait until there is a leader."
}

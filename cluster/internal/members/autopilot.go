package members

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Autopilot: the optional rules by which the leader changes the membership, beyond those of
// reconcile.go (decision 0016).
const (
	defaultDeadServer = 24 * time.Hour
	defaultMinQuorum  = 3
	// healthyLag is how many entries a healthy peer may be behind.
	healthyLag = 1024
)

// autopilotRules are the configured rules with defaults applied.
type autopilotRules struct {
	cleanup         bool
	dead, stabilise time.Duration
	minQuorum       int
}

func rulesOf(c *internalv1.AutopilotConfig) autopilotRules {
	r := autopilotRules{cleanup: c.GetCleanupDeadServers(), dead: time.Duration(c.GetDeadServerMs()) * time.Millisecond,
		stabilise: time.Duration(c.GetStabilizationMs()) * time.Millisecond, minQuorum: int(c.GetMinQuorum())}
	r.dead = cmp.Or(r.dead, defaultDeadServer)
	r.minQuorum = cmp.Or(r.minQuorum, defaultMinQuorum)
	return r
}

// mayClean reports whether a dead voter may be removed: enough voters remain, and a
// majority of them follows.
func (a autopilotRules) mayClean(rest, following int) bool {
	return rest >= a.minQuorum && following >= rest/2+1
}

// condition is a peer's health as a leader has observed it, and since when.
type condition struct {
	ok    bool
	since time.Time
}

// conditions are the conditions of the peers in one term. A new leader starts without any,
// so it removes no peer because of its predecessor's observations.
type conditions struct {
	mu sync.Mutex
	m  map[string]condition
}

// note records a peer's current health and returns since when it has been the same.
func (c *conditions) note(id string, ok bool, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, known := c.m[id]
	if !known || was.ok != ok {
		if c.m == nil {
			c.m = map[string]condition{}
		}
		was = condition{ok: ok, since: now}
		c.m[id] = was
	}
	return was.since
}

func (c *conditions) get(id string) (condition, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.m[id]
	return s, ok
}

func (c *conditions) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m = nil
}

// AwaySince returns since when a peer has not answered this leader. ok is false if it answers, or
// the leader does not know.
func (ms *Members) AwaySince(id string) (at time.Time, ok bool) {
	c, ok := ms.seen.get(id)
	return c.since, ok && !c.ok
}

// removeDead removes a server that has been dead for longer than the rules allow, at most
// one per pass.
func (r *reconciler) removeDead(ctx context.Context) error {
	rules := rulesOf(r.cfg.View().Meta().GetAutopilot())
	now := time.Now()
	for _, s := range r.cfg.Servers() {
		id := string(s.ID)
		if id == r.cfg.Self {
			continue
		}
		ok := r.answers(ctx, id)
		if ctx.Err() != nil {
			return nil
		}
		since := r.seen.note(id, ok, now)
		if ok || !rules.cleanup || now.Sub(since) < rules.dead {
			continue
		}
		if s.Suffrage == raft.Voter {
			if rest, following := r.followed(ctx, r.term, id); !rules.mayClean(rest, following) {
				continue
			}
		}
		r.cfg.Logger.Warn("removing dead peer", "peer", id, "gone_since", since, "dead_server_threshold", rules.dead)
		if err := r.remove(ctx, id, false, false); err != nil {
			return fmt.Errorf("remove dead peer %s: %w", id, err)
		}
		return nil
	}
	return nil
}

// stable reports whether a new peer has been caught up for long enough to vote.
func (r *reconciler) stable(instance string) bool {
	now := time.Now()
	if _, ok := r.stableSince[instance]; !ok {
		r.stableSince[instance] = now
	}
	return now.Sub(r.stableSince[instance]) >= rulesOf(r.cfg.View().Meta().GetAutopilot()).stabilise
}

// Autopilot returns the rules and the resulting state of the peers, for a status of the cluster
// that this peer leads, with the number of the other voters.
func (ms *Members) Autopilot(st *holdfastv1.ClusterStatus, others int) *holdfastv1.Autopilot {
	rules := rulesOf(ms.cfg.View().Meta().GetAutopilot())
	a := &holdfastv1.Autopilot{
		Healthy: true, FailureTolerance: st.GetFailureTolerance(),
		Config: &holdfastv1.AutopilotConfig{
			CleanupDeadServers:  rules.cleanup,
			DeadServerThreshold: durationpb.New(rules.dead),
			MinQuorum:           uint32(rules.minQuorum),
			StabilizationTime:   durationpb.New(rules.stabilise),
		},
	}
	for _, p := range st.GetPeers() {
		ap := &holdfastv1.AutopilotPeer{Id: p.GetId(), Suffrage: p.GetSuffrage(), Behind: p.GetBehind(), Why: unwell(p)}
		ap.Healthy = ap.Why == ""
		if c, ok := ms.seen.get(p.GetId()); ok {
			ap.Since = timestamppb.New(c.since)
			if !c.ok && rules.cleanup && (p.GetSuffrage() != "voter" || others >= rules.minQuorum) {
				ap.RemovedAfter = timestamppb.New(c.since.Add(rules.dead))
			}
		}
		a.Healthy = a.Healthy && (ap.Healthy || p.GetSuffrage() == "none")
		a.Peers = append(a.Peers, ap)
	}
	return a
}

// unwell returns the reason why a peer is not healthy, or "".
func unwell(p *holdfastv1.Peer) string {
	switch {
	case p.GetError() != "":
		return "does not answer: " + strings.TrimPrefix(p.GetError(), "does not answer: ")
	case p.GetSuffrage() == "none":
		return "is not in the Raft configuration"
	case !p.GetMayVote():
		return "has no vote yet: it is catching up"
	case p.GetBehind() > healthyLag:
		return fmt.Sprintf("is %d entries behind", p.GetBehind())
	case p.GetSuffrage() != "voter":
		return "does not vote yet"
	}
	return ""
}

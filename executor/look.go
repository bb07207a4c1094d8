package executor

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The conditions that looks set (bare-metal API §Conditions).
const (
	condReachable    = "Reachable"
	condBMCReachable = "BMCReachable"
	condInCluster    = "InCustomerCluster"
	condProvisioned  = "Provisioned"
	condDegraded     = "Degraded"
	condIntervention = "NeedsIntervention" // that one is only read
)

func condition(m *holdfastv1.Machine, kind string) *holdfastv1.Condition {
	for _, c := range m.GetStatus().GetConditions() {
		if c.GetType() == kind {
			return c
		}
	}
	return nil
}

// unknown is a condition that nobody can tell.
func unknown(kind, reason string) *holdfastv1.Condition {
	return &holdfastv1.Condition{Type: kind, Unknown: true, Reason: reason}
}

// reach looks whether the machine is there: its host, its BMC, its node in the cluster.
func (o *lookout) reach(ctx context.Context, l *lane, e *entry, m *holdfastv1.Machine) {
	began, name := time.Now(), o.providers.NameOf(m)
	p, err := o.providers.Of(m)
	if err != nil {
		return // the lane of records says so
	}
	var seen []*holdfastv1.Condition
	var facts providers.Facts
	failed := false
	if in, ok := p.(providers.Inspector); ok {
		lctx, stop := context.WithTimeout(ctx, o.cfg.Timeout)
		facts, err = in.Inspect(lctx, m)
		stop()
		switch {
		case ctx.Err() != nil:
			return // the term is over: that says nothing about the machine
		case err != nil && providers.ClassOf(err) == providers.Gone:
			seen = append(seen, &holdfastv1.Condition{Type: condReachable, Reason: "Gone"}, &holdfastv1.Condition{Type: condBMCReachable, Reason: "Gone"})
		case err != nil:
			failed = true
			seen = append(seen, o.untold(e, m, err, condReachable, condBMCReachable)...)
		default:
			seen = append(seen, hostSeen(m, facts), bmcSeen(facts))
			if c := provisioned(m, facts); c != nil {
				seen = append(seen, c)
			}
		}
	}
	if ref := clusterToLookAt(m); ref != "" && m.GetStatus().GetActiveRunId() == "" {
		// While a run is at work, the run says when the machine has joined.
		if j, ok := p.(providers.ClusterJoiner); ok && l.pace.wait(ctx) == nil {
			lctx, stop := context.WithTimeout(ctx, o.cfg.Timeout)
			node, err := j.NodeStatus(lctx, m, ref)
			stop()
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				failed = true
				seen = append(seen, o.untold(e, m, err, condInCluster)...)
			default:
				seen = append(seen, &holdfastv1.Condition{Type: condInCluster, Status: node.Registered && node.Ready, Reason: node.Reason, Message: clean(node.Message)})
			}
		}
	}
	o.looked(e, name, lookReach, failed)
	renew := max(4*l.now(), time.Minute)
	o.tell(ctx, m, renew, dated(began, renew+3*l.now(), seen)...)
	o.rescue(ctx, m, p, facts)
}

// clusterToLookAt returns the cluster in which a machine's node is looked for: the one that a run
// has joined it to, else the one that it is meant for; "" for none.
func clusterToLookAt(m *holdfastv1.Machine) string {
	return cmp.Or(m.GetStatus().GetClusterRef(), m.GetSpec().GetTargetClusterRef())
}

// health looks what the hardware says of its parts.
func (o *lookout) health(ctx context.Context, l *lane, e *entry, m *holdfastv1.Machine) {
	began, name := time.Now(), o.providers.NameOf(m)
	p, err := o.providers.Of(m)
	if err != nil {
		return
	}
	r, ok := p.(providers.HealthReader)
	if !ok {
		return
	}
	lctx, stop := context.WithTimeout(ctx, o.cfg.HealthTimeout)
	h, err := r.Health(lctx, m)
	stop()
	if ctx.Err() != nil {
		return
	}
	var seen []*holdfastv1.Condition
	if err != nil {
		seen = o.untold(e, m, err, condDegraded)
	} else {
		seen = append(seen, degraded(h))
	}
	o.looked(e, name, lookHealth, err != nil)
	o.tell(ctx, m, l.now()/2, dated(began, 4*l.now(), seen)...)
}

func (o *lookout) looked(e *entry, provider string, kind lookKind, failed bool) {
	if failed {
		e.failed++
		o.metrics.looked(provider, kind, "failed")
		return
	}
	e.failed = 0
	o.metrics.looked(provider, kind, "ok")
}

// untold says of conditions that a look has failed to tell. Once is no news: what is known is good
// for some time yet. But where there is nothing to wait for (no account, no key, or nothing is
// known at all), it is said at once.
func (o *lookout) untold(e *entry, m *holdfastv1.Machine, err error, kinds ...string) []*holdfastv1.Condition {
	var all []*holdfastv1.Condition
	for _, kind := range kinds {
		c := unknown(kind, whyUntold(err))
		c.Message = clean(err.Error())
		if e.failed > 0 || providers.WhyNotAsked(err) != "" || condition(m, kind) == nil || condition(m, kind).GetUnknown() {
			all = append(all, c)
		}
	}
	return all
}

// whyUntold returns the reason of a condition for an error of a provider.
func whyUntold(err error) string {
	if why := providers.WhyNotAsked(err); why != "" {
		return why
	}
	switch providers.ClassOf(err) {
	case providers.Auth:
		return "AuthFailed"
	case providers.Timeout:
		return "ProviderTimeout"
	case providers.Unsupported:
		return "NotObservable"
	case providers.Gone:
		return "Gone"
	}
	return "ProviderFailed"
}

// hostSeen is the condition Reachable. Where nobody has asked the host, its agent is the next best
// witness.
func hostSeen(m *holdfastv1.Machine, f providers.Facts) *holdfastv1.Condition {
	if f.ReachableUnknown {
		return hostByAgent(m, f.ReachableReason)
	}
	return &holdfastv1.Condition{Type: condReachable, Status: f.Reachable, Reason: f.ReachableReason}
}

// hostByAgent says of a host what its agent tells. An agent that is silent proves nothing about the
// host.
func hostByAgent(m *holdfastv1.Machine, otherwise string) *holdfastv1.Condition {
	switch m.GetStatus().GetAgentState() {
	case holdfastv1.Agent_READY:
		return &holdfastv1.Condition{Type: condReachable, Status: true, Reason: "AgentKeepalive"}
	case holdfastv1.Agent_EXPIRED:
		return unknown(condReachable, "AgentSilent")
	}
	return unknown(condReachable, otherwise)
}

func bmcSeen(f providers.Facts) *holdfastv1.Condition {
	return &holdfastv1.Condition{Type: condBMCReachable, Status: f.BMCReachable, Unknown: f.BMCUnknown, Reason: f.BMCReason}
}

// unobserved is what can be said of a machine whose provider does not look.
func (o *lookout) unobserved(m *holdfastv1.Machine, reason string) []*holdfastv1.Condition {
	return []*holdfastv1.Condition{hostByAgent(m, reason), unknown(condBMCReachable, reason)}
}

// provisioned holds what a host says of itself against what was installed. The first answer after
// an install is taken down; from then on another one means that somebody else has installed the
// machine.
func provisioned(m *holdfastv1.Machine, f providers.Facts) *holdfastv1.Condition {
	known := condition(m, condProvisioned)
	if known == nil || !f.Reachable || f.Image == "" || m.GetStatus().GetActiveRunId() != "" {
		return nil
	}
	const other, not = "OtherImage", ", not "
	installed := known.GetMessage()
	if known.GetReason() == other {
		_, installed, _ = strings.Cut(installed, not)
	}
	if !known.GetStatus() && known.GetReason() != other {
		return nil // nothing of ours is on it
	}
	image := clean(f.Image)
	if installed != "" && installed != image {
		return &holdfastv1.Condition{Type: condProvisioned, Reason: other, Message: image + not + installed}
	}
	return &holdfastv1.Condition{Type: condProvisioned, Status: true, Reason: "ImageOnHost", Message: image}
}

// most parts that a message names.
const mostProblems = 8

// degraded is the condition of that name. What could not be read is said, and is no problem by
// itself.
func degraded(h providers.Health) *holdfastv1.Condition {
	c := &holdfastv1.Condition{Type: condDegraded, Status: !h.OK(), Reason: "HealthOK"}
	var parts []string
	for i, p := range h.Problems {
		if i == mostProblems {
			parts = append(parts, "and more")
			break
		}
		parts = append(parts, p.Text)
	}
	if len(h.Problems) > 0 {
		c.Reason = string(h.Problems[0].Kind)
	} else if len(h.Unread) > 0 {
		c.Reason = "HealthPartial"
		parts = append(parts, "nothing is known to be wrong; not read: "+strings.Join(h.Unread, "; "))
	}
	c.Message = clean(strings.Join(parts, "; "))
	return c
}

// mostMessage bounds a message, in bytes.
const mostMessage = 500

// dated returns observations their time, and the time until when they are good.
func dated(began time.Time, good time.Duration, seen []*holdfastv1.Condition) []*holdfastv1.Condition {
	for _, c := range seen {
		// When it began: what a run has seen meanwhile is newer.
		c.ObservedAt = at(began)
		if !c.GetUnknown() && c.GetType() != condProvisioned {
			c.FreshUntil = at(began.Add(good))
		}
	}
	return seen
}

// age returns how much older a recorded observation is than another. The record has a clock of its
// own, which may be ahead of this peer's.
func (o *lookout) age(c, known *holdfastv1.Condition) time.Duration {
	recorded := known.GetObservedAt().AsTime()
	return max(c.GetObservedAt().AsTime().Sub(recorded), o.state.View().Now().Sub(recorded))
}

// tell puts on its way what is not on record already, and says whether there was something.
// Observations that are good for a time only are renewed when they are that old on record.
func (o *lookout) tell(ctx context.Context, m *holdfastv1.Machine, renew time.Duration, seen ...*holdfastv1.Condition) bool {
	var news []*holdfastv1.Condition
	for _, c := range seen {
		if c.Reason = clean(c.GetReason()); len(c.GetMessage()) > mostMessage {
			c.Message = clean(c.GetMessage()[:mostMessage]) + "…"
		}
		if c.GetObservedAt() == nil {
			c.ObservedAt = at(time.Now())
		}
		known := condition(m, c.GetType())
		same := known != nil && known.GetStatus() == c.GetStatus() && known.GetUnknown() == c.GetUnknown() && known.GetReason() == c.GetReason() &&
			known.GetMessage() == c.GetMessage() && (known.GetFreshUntil() != nil) == (c.GetFreshUntil() != nil)
		if c.GetUnknown() && known.GetUnknown() && known.GetReason() == c.GetReason() && known.GetFreshUntil() == nil {
			same = true // the status of what is unknown stays what it was
		}
		if !same || c.GetFreshUntil() != nil && o.age(c, known) >= renew {
			news = append(news, c)
		}
	}
	if len(news) == 0 {
		return false
	}
	select {
	case o.news <- &internalv1.MachineConditions{MachineId: m.GetMachineId(), Conditions: news}:
	case <-ctx.Done():
	}
	return true
}

package monitor

import (
	"cmp"
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The conditions that polls set (docs/hardware.md).
const (
	condReachable    = "Reachable"
	condBMCReachable = "BMCReachable"
	condPoweredOn    = "PoweredOn"
	condInCluster    = "InCustomerCluster"
	condProvisioned  = "Provisioned"
	condDegraded     = "Degraded"
	condIntervention = "NeedsIntervention" // only read here
)

func condition(m *holdfastv1.Machine, kind string) *holdfastv1.Condition {
	for _, c := range m.GetStatus().GetConditions() {
		if c.GetType() == kind {
			return c
		}
	}
	return nil
}

// unknown returns a condition that could not be observed.
func unknown(kind, reason string) *holdfastv1.Condition {
	return &holdfastv1.Condition{Type: kind, Unknown: true, Reason: reason}
}

// reach polls whether the machine is reachable: its host, its BMC, its node in the cluster.
func (mon *term) reach(ctx context.Context, q *pollQueue, e *pollEntry, m *holdfastv1.Machine) {
	began, name := time.Now(), mon.providers.NameOf(m)
	p, err := mon.providers.Of(m)
	if err != nil {
		return // the queue of records reports it
	}
	var seen []*holdfastv1.Condition
	var facts providers.Facts
	failed := false
	if in, ok := p.(providers.Inspector); ok {
		pctx, stop := context.WithTimeout(ctx, mon.cfg.Timeout)
		facts, err = in.Inspect(pctx, m)
		stop()
		switch {
		case ctx.Err() != nil:
			return // the term has ended: the error is not about the machine
		case err != nil && providers.ClassOf(err) == providers.Gone:
			seen = append(seen,
				&holdfastv1.Condition{Type: condReachable, Reason: "Gone"},
				&holdfastv1.Condition{Type: condBMCReachable, Reason: "Gone"})
		case err != nil:
			failed = true
			seen = append(seen, mon.unobserved(e, m, err, condReachable, condBMCReachable)...)
		default:
			seen = append(seen, hostSeen(m, facts), bmcSeen(facts))
			if c := mon.powerSeen(m, facts); c != nil {
				seen = append(seen, c)
			}
			if c := provisioned(m, facts); c != nil {
				seen = append(seen, c)
			}
		}
	}
	if ref := clusterToPoll(m); ref != "" && m.GetStatus().GetActiveRunId() == "" {
		// An active run reports by itself when the machine has joined.
		if j, ok := p.(providers.ClusterJoiner); ok && q.limit.wait(ctx) == nil {
			pctx, stop := context.WithTimeout(ctx, mon.cfg.Timeout)
			node, err := j.NodeStatus(pctx, m, ref)
			stop()
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				failed = true
				seen = append(seen, mon.unobserved(e, m, err, condInCluster)...)
			default:
				seen = append(seen, &holdfastv1.Condition{
					Type:    condInCluster,
					Status:  node.Registered && node.Ready,
					Reason:  node.Reason,
					Message: task.Clean(node.Message),
				})
			}
		}
	}
	mon.polled(e, name, pollReach, failed)
	renew := max(4*q.now(), time.Minute)
	mon.report(ctx, m, renew, dated(began, renew+3*q.now(), seen)...)
	mon.rescue(ctx, m, p, facts)
}

// clusterToPoll returns the cluster to ask for the machine's node: the one that a run
// has joined it to, else the one that it is intended for, or "".
func clusterToPoll(m *holdfastv1.Machine) string {
	return cmp.Or(m.GetStatus().GetClusterRef(), m.GetSpec().GetTargetClusterRef())
}

// health polls the health of the machine's parts.
func (mon *term) health(ctx context.Context, q *pollQueue, e *pollEntry, m *holdfastv1.Machine) {
	began, name := time.Now(), mon.providers.NameOf(m)
	p, err := mon.providers.Of(m)
	if err != nil {
		return
	}
	r, ok := p.(providers.HealthReader)
	if !ok {
		return
	}
	pctx, stop := context.WithTimeout(ctx, mon.cfg.HealthTimeout)
	h, err := r.Health(pctx, m)
	stop()
	if ctx.Err() != nil {
		return
	}
	var seen []*holdfastv1.Condition
	if err != nil {
		seen = mon.unobserved(e, m, err, condDegraded)
	} else {
		seen = append(seen, degraded(h))
	}
	mon.polled(e, name, pollHealth, err != nil)
	mon.report(ctx, m, q.now()/2, dated(began, 4*q.now(), seen)...)
}

func (mon *term) polled(e *pollEntry, provider string, kind pollKind, failed bool) {
	if failed {
		e.failed++
		mon.metrics.polled(provider, kind, "failed")
		return
	}
	e.failed = 0
	mon.metrics.polled(provider, kind, "ok")
}

// unobserved returns unknown conditions after a failed poll. A single failure is ignored,
// because the last observation is still fresh. There are exceptions without a reason to
// wait: if the provider did not ask (no account, no key), or if the condition was not
// known before.
func (mon *term) unobserved(
	e *pollEntry, m *holdfastv1.Machine, err error, kinds ...string,
) []*holdfastv1.Condition {
	var all []*holdfastv1.Condition
	for _, kind := range kinds {
		c := unknown(kind, unobservedReason(err))
		c.Message = task.Clean(err.Error())
		known := condition(m, kind)
		if e.failed > 0 || providers.WhyNotAsked(err) != "" || known == nil || known.GetUnknown() {
			all = append(all, c)
		}
	}
	return all
}

// unobservedReason returns the reason of an unknown condition after an error of a provider.
func unobservedReason(err error) string {
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

// hostSeen returns the condition Reachable. If the provider cannot observe the host, the
// condition is derived from the state of its agent.
func hostSeen(m *holdfastv1.Machine, f providers.Facts) *holdfastv1.Condition {
	if f.ReachableUnknown {
		return hostByAgent(m, f.ReachableReason)
	}
	return &holdfastv1.Condition{Type: condReachable, Status: f.Reachable, Reason: f.ReachableReason}
}

// hostByAgent returns the condition Reachable as derived from the agent's state. A silent
// agent does not mean that the host is down.
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
	return &holdfastv1.Condition{
		Type:    condBMCReachable,
		Status:  f.BMCReachable,
		Unknown: f.BMCUnknown,
		Reason:  f.BMCReason,
		Message: task.Clean(f.BMCMessage),
	}
}

// agentConditions returns the conditions of a machine that its provider cannot observe.
func (mon *term) agentConditions(m *holdfastv1.Machine, reason string) []*holdfastv1.Condition {
	return []*holdfastv1.Condition{hostByAgent(m, reason), unknown(condBMCReachable, reason)}
}

// provisioned compares the image that a host reports with the installed one. The first
// report after an install is recorded. A different report after that means that the
// machine was installed by other means.
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
		return nil // it has no image that Holdfast installed
	}
	image := task.Clean(f.Image)
	if installed != "" && installed != image {
		return &holdfastv1.Condition{Type: condProvisioned, Reason: other, Message: image + not + installed}
	}
	return &holdfastv1.Condition{Type: condProvisioned, Status: true, Reason: "ImageOnHost", Message: image}
}

// mostProblems is the maximum number of problems in a message.
const mostProblems = 8

// degraded returns the condition Degraded. Parts that could not be read are listed in its
// message, but do not make it true.
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
		parts = append(parts, "no known problems; not read: "+strings.Join(h.Unread, "; "))
	}
	c.Message = task.Clean(strings.Join(parts, "; "))
	return c
}

// mostMessage bounds a message, in bytes.
const mostMessage = 500

// dated sets the time of observations and the time until which they are fresh.
func dated(began time.Time, good time.Duration, seen []*holdfastv1.Condition) []*holdfastv1.Condition {
	for _, c := range seen {
		// Use the start of the poll, so that observations that a run makes meanwhile are newer.
		c.ObservedAt = timestamppb.New(began)
		switch {
		case c.GetUnknown(), c.GetType() == condProvisioned:
		case c.GetType() == condPoweredOn:
			c.FreshUntil = timestamppb.New(began.Add(4 * powerRenewed))
		default:
			c.FreshUntil = timestamppb.New(began.Add(good))
		}
	}
	return seen
}

// age returns the age of a recorded observation when another one is made. The replicated
// state has its own clock, which may be ahead of this peer's.
func (mon *term) age(c, known *holdfastv1.Condition) time.Duration {
	recorded := known.GetObservedAt().AsTime()
	return max(c.GetObservedAt().AsTime().Sub(recorded), mon.state.View().Now().Sub(recorded))
}

// report reports the observations that differ from the recorded conditions, and returns
// whether there were any. Observations with a limited freshness are reported again once
// they are as old as renew.
func (mon *term) report(
	ctx context.Context, m *holdfastv1.Machine, renew time.Duration, seen ...*holdfastv1.Condition,
) bool {
	var changed []*holdfastv1.Condition
	for _, c := range seen {
		if c.Reason = task.Clean(c.GetReason()); len(c.GetMessage()) > mostMessage {
			c.Message = task.Clean(c.GetMessage()[:mostMessage]) + "…"
		}
		if c.GetObservedAt() == nil {
			c.ObservedAt = timestamppb.New(time.Now())
		}
		known := condition(m, c.GetType())
		was := known.GetUnknown() && !unconfirmed(known)
		same := known != nil && known.GetStatus() == c.GetStatus() && was == c.GetUnknown() &&
			known.GetReason() == c.GetReason() && known.GetMessage() == c.GetMessage() &&
			(known.GetFreshUntil() != nil) == (c.GetFreshUntil() != nil)
		if c.GetUnknown() && known.GetUnknown() && known.GetReason() == c.GetReason() && known.GetFreshUntil() == nil {
			same = true // an unknown condition keeps its last status
		}
		if c.GetType() == condBMCReachable && !c.GetUnknown() && known != nil && !known.GetUnknown() &&
			known.GetStatus() == c.GetStatus() && known.GetReason() == c.GetReason() {
			same = true // two errors of one kind differ in details: the renewal has the newest
		}
		every := renew
		if c.GetType() == condPoweredOn {
			every = max(every, powerRenewed)
		}
		if !same || c.GetFreshUntil() != nil && mon.age(c, known) >= every {
			changed = append(changed, c)
		}
	}
	if len(changed) == 0 {
		return false
	}
	select {
	case mon.changes <- &internalv1.MachineConditions{MachineId: m.GetMachineId(), Conditions: changed}:
	case <-ctx.Done():
	}
	return true
}

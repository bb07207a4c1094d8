package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// The checks of leases use these facts
// (docs/decisions/0012-leases-have-a-clock-of-their-own.md), by the driver's own monotonic
// clock:
//
//   - A leader accepted a successful heartbeat at some moment between its call and its return.
//     From then on the lease lasts for at least its TTL. So it cannot be lost before call + TTL,
//     whichever peer leads by then.
//   - A heartbeat with an unknown outcome may have been accepted, also some time after its client
//     gave it up: a peer works on a request for up to 10 s. It proves only that the lease may have
//     lasted longer.
//   - Time in which fewer than a majority of the peers had a process does not count against a
//     lease, because no leader could accept heartbeats.
//   - An observation is a linearizable read: it shows the state at some moment between its call
//     and its return.

// held bounds how long a peer works on a request after its client is gone.
const held = 10 * time.Second

// recovery is added to the end of a fault, during which late losses are allowed: there is
// an election, and the recorded lease clock may be two seconds behind.
const recovery = 3 * time.Second

// renewal is a request that may have been a heartbeat.
type renewal struct {
	call, ret time.Duration
	sure      bool // it was answered with success
}

// last returns the latest moment at which it can have been accepted.
func (s renewal) last() time.Duration {
	if s.sure {
		return s.ret
	}
	return s.ret + held
}

// renewals returns the heartbeats of an id, in the order in which they were sent.
func renewals(l workload.LeaseClient, id string) []renewal {
	var all []renewal
	for _, t := range l.Requests {
		if t.Alive() && t.ID == id && (t.Outcome == workload.OK || t.Outcome == workload.Unknown) {
			all = append(all, renewal{t.Call, t.Return, t.Outcome == workload.OK})
		}
	}
	slices.SortStableFunc(all, func(a, b renewal) int { return int(a.call - b.call) })
	return all
}

// gap is a time without a heartbeat: from the latest moment at which one was accepted to
// the earliest moment of the next one.
type gap struct {
	after time.Duration // call of the heartbeat before
	from  time.Duration
	to    time.Duration
	until time.Duration // return of the heartbeat after
}

// overdue returns the gaps in which the lease must have been lost, because they were longer
// than the terms, not counting faults. The last gap ends with the last read. There is none
// if the client has deregistered.
func overdue(f *workload.Fleet, l workload.LeaseClient, id string, end time.Duration) []gap {
	all := append(renewals(l, id), renewal{call: end, ret: end, sure: true})
	var gaps []gap
	var from time.Duration
	for i, s := range all {
		if i > 0 {
			g := gap{after: all[i-1].call, from: from, to: s.call, until: s.ret}
			calm := g.to - g.from - workload.Within(f.Disturbed, g.from, g.to, recovery)
			if calm > f.LeaseTimes[l.Holder].Max && !mayDeregister(l, g.after, g.until) {
				gaps = append(gaps, g)
			}
		}
		from = max(from, s.last())
	}
	return gaps
}

// mayDeregister reports whether the client may have deregistered within a time.
func mayDeregister(l workload.LeaseClient, from, to time.Duration) bool {
	return slices.ContainsFunc(l.Requests, func(t workload.Request) bool {
		return t.Kind == workload.Deregister && t.Outcome != workload.NotApplied && t.Call >= from && t.Call <= to
	})
}

// atMost returns how often a lease can have been lost: once in each gap of at least its
// TTL. Heartbeats with an unknown outcome count or not, whichever yields more. The last gap
// has no end.
func atMost(f *workload.Fleet, l workload.LeaseClient, id string) int {
	all := renewals(l, id)
	n, base := 0, time.Duration(-1)
	for _, s := range all {
		lost := base >= 0 && s.ret-base-workload.Within(f.NoQuorum, base, s.ret, 0) >= f.LeaseTimes[l.Holder].TTL
		if lost {
			n++
		}
		if s.sure || lost || base < 0 {
			base = s.call
		}
	}
	if len(all) > 0 {
		n++
	}
	return n
}

// lastObservation returns the last observation of an id.
func lastObservation(f *workload.Fleet, id string) (workload.Observation, bool) {
	i := slices.IndexFunc(f.Last, func(s workload.Observation) bool { return s.ID == id })
	if i < 0 {
		return workload.Observation{}, false
	}
	return f.Last[i], true
}

// leaseText returns a description of a client of a lease.
func leaseText(l workload.LeaseClient, id string) string {
	if id == "" || id == l.Name {
		return fmt.Sprintf("%s %s", l.Holder, l.Name)
	}
	return fmt.Sprintf("%s %s (%s)", l.Holder, id, l.Name)
}

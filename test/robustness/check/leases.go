package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// What the checks of leases know (docs/decisions/0012-leases-have-a-clock-of-their-own.md), all of
// it by the driver's own monotonic clock:
//
//   - A heartbeat that was answered with success was taken by a leader at some moment between its
//     call and its return. From that moment on the lease lasts for its TTL at least, so that it
//     cannot be lost before call + TTL, whoever leads by then.
//   - A heartbeat whose outcome is not known may have been taken, also some time after its client
//     has given it up: a peer works for up to 10 s on what it was asked. Nothing is concluded from
//     it but that the lease may have lasted longer.
//   - Time in which fewer than a majority of the peers had a process does not count against a
//     lease: no leader could hear.
//   - A look is a linearizable read: what it shows was so at some moment between its call and its
//     return.

// held is how long a peer may be at work on a request whose client is gone.
const held = 10 * time.Second

// recovery is for how long after the end of a fault nobody is blamed for being late: there is an
// election, and the lease clock on record may be two seconds behind.
const recovery = 3 * time.Second

// sign is what may have been a heartbeat.
type sign struct {
	call, ret time.Duration
	sure      bool // it was answered with success
}

// last is the latest moment at which it can have been taken.
func (s sign) last() time.Duration {
	if s.sure {
		return s.ret
	}
	return s.ret + held
}

// signs returns the heartbeats of an id, in the order in which they were sent.
func signs(l workload.Life, id string) []sign {
	var all []sign
	for _, t := range l.Trips {
		if t.Alive() && t.ID == id && (t.Outcome == workload.OK || t.Outcome == workload.Unknown) {
			all = append(all, sign{t.Call, t.Return, t.Outcome == workload.OK})
		}
	}
	slices.SortStableFunc(all, func(a, b sign) int { return int(a.call - b.call) })
	return all
}

// gap is a time without a heartbeat: from the latest moment at which one was taken to the earliest
// of the next one.
type gap struct {
	after time.Duration // call of the sign before
	from  time.Duration
	to    time.Duration
	until time.Duration // return of the sign after
}

// overdue returns the gaps in which the lease must have been lost: those that were longer than it
// takes, faults left out. The last one ends with the last look. Where the client has said farewell
// there is none.
func overdue(f *workload.Fleet, l workload.Life, id string, end time.Duration) []gap {
	all := append(signs(l, id), sign{call: end, ret: end, sure: true})
	var gaps []gap
	var from time.Duration
	for i, s := range all {
		if i > 0 {
			g := gap{after: all[i-1].call, from: from, to: s.call, until: s.ret}
			calm := g.to - g.from - workload.Within(f.Unrest, g.from, g.to, recovery)
			if calm > f.Terms[l.Holder].Most && !saidFarewell(l, g.after, g.until) {
				gaps = append(gaps, g)
			}
		}
		from = max(from, s.last())
	}
	return gaps
}

// saidFarewell reports whether the client may have deregistered within a time.
func saidFarewell(l workload.Life, from, to time.Duration) bool {
	return slices.ContainsFunc(l.Trips, func(t workload.Trip) bool {
		return t.Kind == workload.Farewell && t.Outcome != workload.NotApplied && t.Call >= from && t.Call <= to
	})
}

// atMost reports how often a lease can have been lost: once in each time without a heartbeat that
// was as long as its TTL, where those of unknown outcome are there or not, whichever makes more.
// The last one has no end.
func atMost(f *workload.Fleet, l workload.Life, id string) int {
	all := signs(l, id)
	n, base := 0, time.Duration(-1)
	for _, s := range all {
		lost := base >= 0 && s.ret-base-workload.Within(f.Deaf, base, s.ret, 0) >= f.Terms[l.Holder].TTL
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

// lookAt returns the last look at an id.
func lookAt(f *workload.Fleet, id string) (workload.Sight, bool) {
	i := slices.IndexFunc(f.Last, func(s workload.Sight) bool { return s.ID == id })
	if i < 0 {
		return workload.Sight{}, false
	}
	return f.Last[i], true
}

// whose words a client of a lease.
func whose(l workload.Life, id string) string {
	if id == "" || id == l.Name {
		return fmt.Sprintf("%s %s", l.Holder, l.Name)
	}
	return fmt.Sprintf("%s %s (%s)", l.Holder, id, l.Name)
}

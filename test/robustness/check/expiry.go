package check

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// early checks that no lease is lost before its time (docs/reliability.md,
// docs/decisions/0012-leases-have-a-clock-of-their-own.md). Assume that a read begins after
// an acknowledged heartbeat has returned, and shows a loss after that heartbeat. Then the
// read must have ended at least a TTL after the heartbeat was sent, not counting the time
// without any leader. So a client whose heartbeats are acknowledged within a TTL of each
// other is never lost, whatever fault runs. Clients without acknowledgements may be lost
// after their TTL, and come back. The check losses finds losses between two reads, in the
// record.
func early(h *workload.History, _ *final.Record) []error {
	f := h.Fleet
	if f == nil {
		return nil
	}
	sure := map[string][]renewal{}
	holders := map[string]workload.LeaseClient{}
	for _, l := range f.Clients {
		for _, id := range l.IDs() {
			holders[id] = l
			sure[id] = slices.DeleteFunc(renewals(l, id), func(s renewal) bool { return !s.sure })
		}
	}
	var errs []error
	for _, seen := range slices.Concat(f.Observations, f.Last) {
		if seen.State != workload.Lost {
			continue
		}
		var newest *renewal
		for i, s := range sure[seen.ID] {
			if s.ret < seen.Call {
				newest = &sure[seen.ID][i]
			}
		}
		if newest == nil {
			continue
		}
		ttl := f.LeaseTimes[seen.Holder].TTL
		if took := seen.Return - newest.call - workload.Within(f.NoQuorum, newest.call, seen.Return, 0); took < ttl {
			errs = append(errs, fmt.Errorf("%s was lost at most %.3fs after it had sent a heartbeat "+
				"that was acknowledged [%.3fs, %.3fs], its TTL is %s: seen at [%.3fs, %.3fs]",
				leaseText(holders[seen.ID], seen.ID), took.Seconds(), newest.call.Seconds(), newest.ret.Seconds(),
				ttl, seen.Call.Seconds(), seen.Return.Seconds()))
		}
	}
	return firstErrors(errs)
}

// missed checks that a stopped client is declared lost in time
// (docs/decisions/0012-leases-have-a-clock-of-their-own.md: within TTL + 60 s, not counting
// faults; a build with short leases has shorter terms). The loss was seen in each gap that
// was long enough, and at the end no client is up that was stopped long ago.
func missed(h *workload.History, _ *final.Record) []error {
	f := h.Fleet
	if f == nil {
		return nil
	}
	if f.Last == nil {
		return []error{errors.New("the clients of leases were not read at the end")}
	}
	var errs []error
	for _, l := range f.Clients {
		for _, id := range l.IDs() {
			last, ok := lastObservation(f, id)
			if !ok {
				continue // the check identities covers that
			}
			for _, g := range overdue(f, l, id, last.Call) {
				if err := late(f, l, id, g, last); err != nil {
					errs = append(errs, err)
				}
			}
		}
	}
	return firstErrors(errs)
}

// late returns an error if the loss in a gap was late, or was not declared at all.
func late(f *workload.Fleet, l workload.LeaseClient, id string, g gap, last workload.Observation) error {
	first := last
	for _, s := range f.Observations {
		if s.ID == id && s.State != workload.Up && s.Call >= g.from && s.Call <= min(g.until, first.Call) {
			first = s
		}
	}
	most := f.LeaseTimes[l.Holder].Max
	if first.State == workload.Up || first.Call > g.until {
		return fmt.Errorf("%s sent no heartbeat from %.3fs to %.3fs, and was not declared lost within %s",
			leaseText(l, id), g.from.Seconds(), g.to.Seconds(), most)
	}
	if took := first.Call - g.from - workload.Within(f.Disturbed, g.from, first.Call, recovery); took > most+between {
		return fmt.Errorf("%s sent no heartbeat from %.3fs on, and was declared lost only %.3fs later, "+
			"not counting faults, want at most %s", leaseText(l, id), g.from.Seconds(), took.Seconds(), most)
	}
	return nil
}

// between is longer than the time between two reads of the observers, all of which may wait
// for a peer that hangs.
const between = 3 * time.Second

package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// identities checks that no client with an acknowledged registration is missing in the
// record, that it exists once, and that it is deregistered only if it requested that, and
// if that was acknowledged. The same identity (a machine id, an id file) keeps its id
// across restarts. Other recorded ids can only come from registrations whose outcome their
// client does not know.
func identities(h *workload.History, _ *final.Record) []error {
	f := h.Fleet
	if f == nil {
		return nil
	}
	var errs []error
	owner, spare := map[string]string{}, map[string]int{}
	for _, l := range f.Clients {
		ids := l.IDs()
		if len(ids) > 1 {
			errs = append(errs, fmt.Errorf("%s was registered under several ids: %v", leaseText(l, ""), ids))
		}
		for _, id := range ids {
			if other, ok := owner[id]; ok {
				errs = append(errs, fmt.Errorf("%s has the id of %s", leaseText(l, id), other))
			}
			owner[id] = l.Name
			if err := onRecord(f, l, id); err != nil {
				errs = append(errs, err)
			}
		}
		for _, t := range l.Requests {
			if t.Kind == workload.Register && t.Outcome == workload.Unknown {
				if t.ID != "" && len(ids) == 0 {
					owner[t.ID] = l.Name // whether it is recorded or not
				}
				if t.New {
					spare[l.Name]++
				}
			}
		}
	}
	for _, s := range f.Last {
		if _, ok := owner[s.ID]; ok {
			continue
		}
		if spare[s.Name]--; spare[s.Name] < 0 {
			errs = append(errs, fmt.Errorf("%s %s (%s) is recorded, but was never registered", s.Holder, s.ID, s.Name))
		}
	}
	return firstErrors(errs)
}

// before returns the requests that a read at a time could have seen. The outcome of a request
// that was in flight then is unknown to the read.
func before(requests []workload.Request, at time.Duration) []workload.Request {
	var seen []workload.Request
	for _, t := range requests {
		if t.Call > at {
			continue
		}
		if t.Return > at && t.Outcome == workload.OK {
			t.Outcome = workload.Unknown
		}
		seen = append(seen, t)
	}
	return seen
}

// onRecord compares an id with the last read.
func onRecord(f *workload.Fleet, l workload.LeaseClient, id string) error {
	requests := l.Requests
	if f.LastAt > 0 {
		requests = before(requests, f.LastAt)
	}
	last, ok := lastObservation(f, id)
	if !ok && !slices.ContainsFunc(requests, func(t workload.Request) bool {
		return t.Kind == workload.Register && t.Outcome == workload.OK && t.ID == id
	}) {
		return nil // the registration may have followed the read
	}
	if !ok {
		return fmt.Errorf("%s is not recorded, although its registration was acknowledged", leaseText(l, id))
	}
	// The newest acknowledged registration, and requests that may follow it.
	var registered workload.Request
	for _, t := range requests {
		if t.Kind == workload.Register && t.Outcome == workload.OK && t.ID == id && t.Call >= registered.Call {
			registered = t
		}
	}
	left, maybe := false, false
	for _, t := range requests {
		if t.ID != id || t.Outcome == workload.NotApplied || t.Outcome == workload.Refused {
			continue
		}
		switch {
		case t.Kind == workload.Deregister && t.Call >= registered.Return && t.Outcome == workload.OK:
			left = true
		case t.Kind == workload.Deregister && t.Return+held >= registered.Call,
			t.Kind == workload.Register && t.Outcome == workload.Unknown:
			maybe = true
		}
	}
	switch {
	case left && !maybe && last.State != workload.Gone:
		return fmt.Errorf("%s is %s, although its deregistration was acknowledged", leaseText(l, id), last.State)
	case !left && !maybe && last.State == workload.Gone:
		return fmt.Errorf("%s is deregistered in the record, but never deregistered", leaseText(l, id))
	}
	return nil
}

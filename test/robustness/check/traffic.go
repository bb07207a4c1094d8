package check

import (
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// traffic checks that enough calls of each kind were answered for the other checks to be
// meaningful.
func traffic(h *workload.History, _ *final.Record) []error {
	errs := h.Lacks()
	for _, pair := range [][2]workload.Kind{
		{workload.CreatePool, workload.CreatePlanOnce},
		{workload.DeletePool, workload.DeletePlan},
	} {
		// The rarer pair is 1 of 100 calls.
		if n, want := h.Count(pair[0], workload.OK)+h.Count(pair[1], workload.OK), h.MinOps/400; n < want {
			errs = append(errs,
				fmt.Errorf("%d calls of %s or %s succeeded, want at least %d", n, pair[0], pair[1], want))
		}
	}
	if h.Fleet != nil {
		errs = append(errs, fleetTraffic(h.Fleet)...)
	}
	for _, w := range h.Watches {
		if len(w.Events) == 0 {
			errs = append(errs, fmt.Errorf("%s has seen no event", w.Name))
		}
	}
	if len(h.Tails) == 0 {
		errs = append(errs, fmt.Errorf("no log was followed"))
	}
	return errs
}

// fleetTraffic is the same check for the clients of leases.
func fleetTraffic(f *workload.Fleet) []error {
	var errs []error
	for _, kind := range []workload.Holder{workload.Machine, workload.Pool, workload.Service} {
		clients, beating, killed, why := 0, 0, 0, "nothing was refused"
		for _, l := range f.Clients {
			if l.Holder != kind {
				continue
			}
			clients++
			ids := l.IDs()
			if len(ids) > 0 && len(renewals(l, ids[0])) > 1 {
				beating++
			}
			for _, t := range l.Requests {
				if t.Why != "" {
					why = fmt.Sprintf("%s at peer %d: %d %s", t.Kind, t.Peer, t.Status, t.Why)
				}
			}
			for _, s := range l.Stops {
				if s.How == workload.Killed {
					killed++
				}
			}
		}
		if beating*2 < clients {
			errs = append(errs, fmt.Errorf("%d of %d clients of kind %s sent heartbeats; the last failure: %s",
				beating, clients, kind, why))
		}
		if killed == 0 && f.LeaseTimes[kind].Max < time.Minute { // otherwise there is no time for it
			errs = append(errs, fmt.Errorf("no client of kind %s was killed", kind))
		}
	}
	if !foreignTokens(f) {
		errs = append(errs, fmt.Errorf("no access token was valid at a peer other than its issuer"))
	}
	return errs
}

// foreignTokens reports whether a token was valid at another peer than its issuer.
func foreignTokens(f *workload.Fleet) bool {
	for _, l := range f.Clients {
		maker := -1
		for _, t := range l.Requests {
			switch {
			case t.Outcome != workload.OK:
			case t.Kind == workload.Token:
				maker = t.Peer
			case maker >= 0 && t.Peer != maker:
				return true
			}
		}
	}
	return false
}

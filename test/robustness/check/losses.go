package check

import (
	"fmt"
	"slices"

	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// losses checks the recorded losses of clients. A machine's agent facet goes through valid
// transitions, all made by the system, and ends in its current state. Machines and services
// were lost once for each gap: at least as often as they must have been, and at most as
// often as they can have been.
func losses(h *workload.History, f *final.Record) []error {
	if h.Fleet == nil {
		return nil
	}
	var errs []error
	for _, l := range h.Fleet.Clients {
		for _, id := range l.IDs() {
			last, ok := lastObservation(h.Fleet, id)
			if !ok {
				continue
			}
			least, most := len(overdue(h.Fleet, l, id, last.Call)), atMost(h.Fleet, l, id)
			n, whole := 0, true
			switch l.Holder {
			case workload.Machine:
				var err error
				if n, err = agentHistory(f, id); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", leaseText(l, id), err))
					continue
				}
			case workload.Service:
				n, whole = missing(f, id)
			default:
				continue // pools have no history: see early and missed
			}
			if n > most || whole && n < least {
				errs = append(errs,
					fmt.Errorf("%s was lost %d times in the record, and had at least %d and at most %d gaps",
						leaseText(l, id), n, least, most))
			}
		}
	}
	return firstErrors(errs)
}

// agentHistory checks the entries of a machine's agent facet, and counts the losses.
func agentHistory(f *final.Record, id string) (lost int, err error) {
	m := f.Agents[id]
	if m == nil {
		return 0, fmt.Errorf("it is not recorded")
	}
	may := map[string][]string{
		"":           {"PENDING", "REGISTERED"},
		"PENDING":    {"REGISTERED", "READY", "EXPIRED"},
		"REGISTERED": {"READY", "EXPIRED"},
		"READY":      {"REGISTERED", "EXPIRED"},
		"EXPIRED":    {"REGISTERED", "PENDING"},
	}
	now := ""
	entries := f.History[id]
	for i, e := range slices.Backward(entries) { // newest first
		if want := uint64(len(entries) - i); e.GetSequence() != want {
			return 0, fmt.Errorf("entry %d of the history has the number %d", want, e.GetSequence())
		}
		if i < len(entries)-1 && e.GetAt().AsTime().Before(entries[i+1].GetAt().AsTime()) {
			return 0, fmt.Errorf("entry %d of the history is older than the one before it", e.GetSequence())
		}
		if e.GetFacet() != "agent" {
			continue
		}
		ok := e.GetFrom() == now
		if ok {
			ok = false
			for _, to := range may[now] {
				ok = ok || to == e.GetTo()
			}
		}
		if !ok {
			return 0, fmt.Errorf("its agent was %q, and went from %q to %q", now, e.GetFrom(), e.GetTo())
		}
		if now = e.GetTo(); now == "EXPIRED" {
			lost++
		}
		if e.GetTriggeredBy() != "system" {
			return 0, fmt.Errorf("its agent went from %q to %q by %q, want the system", e.GetFrom(), e.GetTo(),
				e.GetTriggeredBy())
		}
	}
	if is := m.GetStatus().GetAgentState().String(); is != now {
		return 0, fmt.Errorf("its agent is %s, and the history ends with %q", is, now)
	}
	want := map[string]string{"REGISTERED": "AgentRegistered", "READY": "AgentKeepalive",
		"EXPIRED": "AgentExpired"}[now]
	for _, c := range m.GetStatus().GetConditions() {
		if c.GetType() == "AgentReady" && want != "" && c.GetReason() != want {
			return 0, fmt.Errorf("its agent is %s, and the condition says %s", now, c.GetReason())
		}
	}
	return lost, nil
}

// missing returns how often a service was missing, and whether its record goes back to its
// beginning.
func missing(f *final.Record, id string) (n int, whole bool) {
	const kept = 10 // states
	for _, s := range f.Services {
		if s.GetTarget().GetId() != id {
			continue
		}
		for _, state := range s.GetStates() {
			if state.GetReason() == "missing in action" {
				n++
			}
		}
		return n, len(s.GetStates()) < kept
	}
	return 0, false
}

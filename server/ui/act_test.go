package ui_test

import (
	"net/url"
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestActions: actions are done and redirect to a page that shows the result. Those that
// cannot be undone require confirmation. Refusals are shown with the API's message and the
// submitted form.
func TestActions(t *testing.T) {
	l := lab(t)
	phase := func(id string) string {
		m, _ := l.State().Machine(id)
		return m.GetStatus().GetPhase().String()
	}
	w := post(l, "operator", "/ui/machines/m-2/phase", url.Values{"phase": {"MAINTENANCE"}, "comment": {"fan 3 is loud"}})
	if w.Code != 303 || !strings.HasPrefix(w.Header().Get("Location"), "/ui/machines/m-2") ||
		phase("m-2") != "MAINTENANCE" {
		t.Errorf("got %d to %s, phase of m-2 %s", w.Code, w.Header().Get("Location"), phase("m-2"))
	}
	has(t, get(l, "operator", "/ui/machines/m-2"), 200, []string{"fan 3 is loud", "token:operator"})
	for _, typed := range []string{"", "m-1", "m-22"} {
		has(t, post(l, "operator", "/ui/machines/m-2/phase", url.Values{"phase": {"RETIRED"}, "typed": {typed},
			"comment": {"old"}}), 400, []string{"type m-2 to confirm", `value="old"`})
	}
	if phase("m-2") != "MAINTENANCE" {
		t.Errorf("m-2 is in %s", phase("m-2"))
	}
	has(t, post(l, "operator", "/ui/machines/m-2/phase", url.Values{"phase": {"RETIRED"}, "typed": {"m-2"}}), 303, nil)
	has(t, post(l, "operator", "/ui/machines/m-2/phase", url.Values{"phase": {"READY"}}), 409,
		[]string{"cannot be moved by hand from RETIRED to READY"})
	has(t, post(l, "operator", "/ui/machines/m-1/phase", url.Values{"phase": {"READY"}}), 409,
		[]string{"has the active run run-1"})
	has(t, post(l, "operator", "/ui/machines/m-1/phase", url.Values{"phase": {"NONSENSE"}}), 400,
		[]string{"is not a phase"})

	has(t, post(l, "operator", "/ui/machines/m-1/run", url.Values{"plan": {"plan/repave-join"}, "request": {"q-1"}}),
		400, []string{"type m-1 to confirm", `value="q-1"`})
	has(t, post(l, "operator", "/ui/machines/m-1/run", url.Values{"plan": {"plan/inspect"}, "params": {"image"}}), 400,
		[]string{"is not key=value"})
	has(t, post(l, "operator", "/ui/machines/m-1/run", url.Values{"plan": {"plan/none"}}), 400,
		[]string{"there is no plan"})
	has(t, post(l, "operator", "/ui/machines/m-1/run", url.Values{"plan": {"plan/inspect"}, "params": {"a=" + evil}}),
		400, []string{"Not done", "params.a: no step of plan"}, evil)

	has(t, post(l, "operator", "/ui/machines/new/approve", url.Values{"workflow": {"plan/repave-join"},
		"comment": {"as ordered"}}), 303, nil)
	if m, _ := l.State().Machine("new"); m.GetStatus().GetNodeState() != holdfastv1.Node_PENDING ||
		m.GetNode().GetWorkflowId() != "plan/repave-join" {
		t.Errorf("got node %v", m)
	}
	has(t, post(l, "operator", "/ui/runs/run-1/cancel", url.Values{"comment": {"enough"}}), 303, nil)
	if r, _ := l.State().Run("run-1"); r.GetCancelRequestedAt() == nil || r.GetCancelReason() != "enough" {
		t.Errorf("got run %v", r)
	}
	has(t, post(l, "operator", "/ui/release/plan/inspect", nil), 303, nil)
}

// TestNoLeader checks that pages work without a leader and report it, and that actions fail with a
// message.
func TestNoLeader(t *testing.T) {
	l := lab(t)
	l.LoseLeader(true)
	has(t, post(l, "operator", "/ui/machines/m-2/phase", url.Values{"phase": {"MAINTENANCE"}}), 503, nil)
}

// TestUnknownOutcome checks that an unknown outcome is not shown as "not done", because users would
// repeat the action.
func TestUnknownOutcome(t *testing.T) {
	l := lab(t)
	l.LoseOutcomes(true)
	has(t, post(l, "operator", "/ui/machines/m-2/phase", url.Values{"phase": {"MAINTENANCE"}}), 503,
		[]string{"The outcome is unknown"}, "Not done")
	if m, _ := l.State().Machine("m-2"); m.GetStatus().GetPhase() != holdfastv1.MachineStatus_MAINTENANCE {
		t.Errorf("m-2 is in %s", m.GetStatus().GetPhase())
	}
	l.LoseOutcomes(false)
	l.LoseLeader(true)
	has(t, post(l, "operator", "/ui/machines/m-2/phase", url.Values{"phase": {"READY"}}), 503, nil,
		"The outcome is unknown")
}

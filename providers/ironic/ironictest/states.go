package ironictest

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// conductor is the holder of locks.
const conductor = "conductor-1"

// later calls f after the time of a transition.
func (s *Server) later(f func()) {
	s.work.Add(1)
	time.AfterFunc(s.cfg.Step, func() {
		defer s.work.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	})
}

func (s *Server) power(w http.ResponseWriter, r *http.Request, n *Node) {
	var in struct{ Target string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	targets := map[string]string{
		"power on":       "power on",
		"power off":      "power off",
		"soft power off": "power off",
	}
	end, ok := targets[in.Target]
	if !ok {
		fault(w, http.StatusBadRequest,
			"The requested action %q can not be performed on node %q while it is in state %q.",
			in.Target, n.Name, n.Power)
		return
	}
	if n.locked(w) {
		return
	}
	s.asked = append(s.asked, n.Name+" power: "+in.Target)
	n.Locked, n.targetPower, n.lastError = conductor, end, ""
	s.later(func() {
		n.Locked, n.targetPower = "", ""
		if s.faults.FailPower != "" {
			n.lastError = s.faults.FailPower
			return
		}
		n.Power, n.powerAt = end, time.Now().UTC().Format(time.RFC3339Nano)
	})
	w.WriteHeader(http.StatusAccepted)
}

// transition describes a target: the states in which it is allowed, those on the way, and the end.
type transition struct {
	from []string
	way  []string
	end  string
}

// machine returns the transition for a target. It is the needed part of Ironic's state machine
// (ironic/common/states.py).
func machine(target string) (transition, bool) {
	deploying := []string{"deploying", "wait call-back", "deploying"}
	t, ok := map[string]transition{
		"manage": {
			[]string{"available", "enroll", "clean failed", "inspect failed", "adopt failed"}, nil, "manageable",
		},
		"provide": {[]string{"manageable"}, []string{"cleaning"}, "available"},
		"deleted": {
			[]string{"active", "deploy failed", "error"}, []string{"deleting", "cleaning"}, "available",
		},
		"clean":   {[]string{"manageable"}, []string{"cleaning", "clean wait", "cleaning"}, "manageable"},
		"active":  {[]string{"available", "deploy failed"}, deploying, "active"},
		"rebuild": {[]string{"active", "deploy failed", "error"}, deploying, "active"},
	}[target]
	return t, ok
}

func (s *Server) provision(w http.ResponseWriter, r *http.Request, n *Node) {
	var in struct {
		Target     string
		CleanSteps []map[string]any `json:"clean_steps"`
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	if (in.Target == "active" || in.Target == "rebuild") && n.Maintenance != "" {
		fault(w, http.StatusBadRequest,
			"The provisioning operation can't be performed on node %s because it's in maintenance mode.", n.uuid)
		return
	}
	t, ok := machine(in.Target)
	if !ok || !slices.Contains(t.from, n.State) || in.Target == "clean" && len(in.CleanSteps) == 0 {
		fault(w, http.StatusBadRequest,
			"The requested action %q can not be performed on node %q while it is in state %q.",
			in.Target, n.uuid, n.State)
		return
	}
	if n.locked(w) {
		return
	}
	s.asked = append(s.asked, n.Name+" provision: "+in.Target)
	n.lastError, n.target = "", t.end
	if in.Target == "deleted" {
		n.instance = map[string]any{}
	}
	s.walk(n, in.Target, t.way, t.end)
	w.WriteHeader(http.StatusAccepted)
}

// walk takes a node through the states on the way. The node is locked while a conductor works on
// it, but not while it waits for the agent.
func (s *Server) walk(n *Node, target string, way []string, end string) {
	if len(way) > 0 {
		n.enter(way[0])
		n.Locked = conductor
		if way[0] == "clean wait" || way[0] == "wait call-back" {
			n.Locked = ""
		}
		s.later(func() { s.walk(n, target, way[1:], end) })
		return
	}
	n.Locked, n.target = "", ""
	switch {
	case s.faults.FailDeploy != "" && end == "active":
		n.lastError, end = s.faults.FailDeploy, "deploy failed"
	case s.faults.FailClean != "" && target == "clean":
		n.lastError, end = s.faults.FailClean, "clean failed"
		n.Maintenance, n.Fault = s.faults.FailClean, "clean failure"
	}
	n.enter(end)
}

func (n *Node) enter(state string) { n.State, n.since = state, time.Now() }

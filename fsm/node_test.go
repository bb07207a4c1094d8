package fsm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	nodeMAC = "aa:bb:cc:dd:ee:01"

	discovered     = holdfastv1.Node_DISCOVERED
	pending        = holdfastv1.Node_PENDING
	installing     = holdfastv1.Node_INSTALLING
	installFailed  = holdfastv1.Node_INSTALL_FAILED
	installed      = holdfastv1.Node_INSTALLED
	nodeActive     = holdfastv1.Node_ACTIVE
	reprovision    = holdfastv1.Node_REPROVISION
	deprovisioning = holdfastv1.Node_DEPROVISIONING
	migrating      = holdfastv1.Node_MIGRATING
	nodeRetired    = holdfastv1.Node_RETIRED
)

func nodePeer(t *testing.T) *fsmtest.Peer {
	t.Helper()
	p := fsmtest.NewPeer()
	plan(t, p, "ubuntu", "repave")
	do(t, p, &internalv1.CreateNode{MachineId: "m-1", MacAddress: "AA-BB-CC-DD-EE-01",
		Node: &holdfastv1.NodeRecord{Hostname: "n1"}})
	return p
}

// report applies a report about the installation of m-1.
func report(t *testing.T, p *fsmtest.Peer, status string) *holdfastv1.Machine {
	t.Helper()
	return do(t, p, reportOp(p, status)).(*holdfastv1.Machine)
}

func reportOp(p *fsmtest.Peer, status string) *internalv1.ReportNode {
	r := &internalv1.ReportNode{RunId: "run-at-" + time.Duration(p.Index).String(),
		Report: &holdfastv1.ReportNodeRequest{MacAddress: nodeMAC, InstallationStatus: status,
			Facts: &holdfastv1.NodeRecord{IpAddress: "10.0.0.7"}}}
	if status == "failed" {
		r.Report.InstallationError = "Disk not found"
	}
	return r
}

func move(id string, to holdfastv1.Node_State, force bool) *internalv1.TransitionNode {
	return &internalv1.TransitionNode{Id: id, State: to, Force: force, RunId: "run-by-hand"}
}

// nodeIn brings m-1 into a node state by the regular transitions.
func nodeIn(t *testing.T, state holdfastv1.Node_State) *fsmtest.Peer {
	t.Helper()
	p := nodePeer(t)
	to := func(states ...holdfastv1.Node_State) {
		for _, s := range states {
			do(t, p, move("m-1", s, false))
		}
	}
	install := func() { to(pending); report(t, p, "started"); report(t, p, "complete") }
	switch state {
	case discovered:
	case pending, nodeRetired:
		to(state)
	case installing:
		to(pending)
		report(t, p, "started")
	case installFailed:
		to(pending)
		report(t, p, "started")
		for range 3 {
			report(t, p, "failed")
		}
	case installed:
		install()
	case nodeActive:
		install()
		to(nodeActive)
	default:
		install()
		to(nodeActive, state)
	}
	if got := getMachine(t, p, "m-1").GetStatus().GetNodeState(); got != state {
		t.Fatalf("node is %s, want %s", got, state)
	}
	return p
}

func nodeStates() []holdfastv1.Node_State {
	return []holdfastv1.Node_State{discovered, pending, installing, installFailed, installed, nodeActive, reprovision,
		deprovisioning, migrating, nodeRetired}
}

// TestNodeTransitions tries every pair of states against the table of the specification, and
// checks the resulting phase.
func TestNodeTransitions(t *testing.T) {
	table := map[holdfastv1.Node_State]map[holdfastv1.Node_State]holdfastv1.MachineStatus_Phase{
		discovered:     {pending: ready, nodeRetired: retired},
		pending:        {installing: provisioning, nodeRetired: retired},
		installing:     {installed: ready, installFailed: maintenance, nodeRetired: retired},
		installFailed:  {pending: ready, nodeRetired: retired},
		installed:      {nodeActive: inService, nodeRetired: retired},
		nodeActive:     {reprovision: ready, deprovisioning: maintenance, migrating: maintenance, nodeRetired: retired},
		reprovision:    {pending: ready, nodeRetired: retired},
		deprovisioning: {nodeRetired: retired},
		migrating:      {nodeActive: inService, nodeRetired: retired},
		nodeRetired:    {},
	}
	for _, from := range nodeStates() {
		for _, to := range nodeStates() {
			t.Run(fsm.NodeStateName(from)+" to "+fsm.NodeStateName(to), func(t *testing.T) {
				p := nodeIn(t, from)
				phase, allowed := table[from][to]
				if !allowed {
					for _, force := range []bool{false, true} {
						e := refused(t, p, move("m-1", to, force), fsm.FailedPrecondition, fsm.ReasonNodeTransition)
						if want := "Invalid state transition from '" + fsm.NodeStateName(from) + "' to '" + fsm.NodeStateName(to) +
							"'. Valid transitions: ["; !strings.HasPrefix(e.Message, want) {
							t.Errorf("message: got %q, want it to begin with %q", e.Message, want)
						}
					}
					return
				}
				m := do(t, p, move(nodeMAC, to, from == installFailed)).(*holdfastv1.Machine)
				if s := m.GetStatus(); s.GetNodeState() != to || s.GetPhase() != phase {
					t.Errorf("got %s in %s, want %s in %s", s.GetNodeState(), s.GetPhase(), to, phase)
				}
				if err := fsmtest.Check(p.View()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestNodeTransitionWords(t *testing.T) {
	p := nodeIn(t, nodeActive)
	e := refused(t, p, move("m-1", pending, true), fsm.FailedPrecondition, fsm.ReasonNodeTransition)
	if want := "Invalid state transition from 'active' to 'pending'. Valid transitions: ['reprovision', " +
		"'deprovisioning', 'migrating', 'retired']"; e.Message != want {
		t.Errorf("got %q, want %q", e.Message, want)
	}
	p = nodeIn(t, nodeRetired)
	e = refused(t, p, move("m-1", pending, true), fsm.FailedPrecondition, fsm.ReasonNodeTransition)
	if want := "Invalid state transition from 'retired' to 'pending'. Valid transitions: []"; e.Message != want {
		t.Errorf("got %q, want %q", e.Message, want)
	}
	e = refused(t, p, move("m-none", pending, false), fsm.NotFound, fsm.ReasonNodeNotFound)
	if e.Message != "Node not found" {
		t.Errorf("got %q", e.Message)
	}
}

// TestReports tries every status in every state. The specification's table has four rows;
// other reports change facts only.
func TestReports(t *testing.T) {
	type row struct {
		status string
		from   holdfastv1.Node_State
	}
	rows := map[row]holdfastv1.Node_State{{"started", pending}: installing, {"complete", installing}: installed}
	for _, from := range nodeStates() {
		for _, status := range []string{"started", "progress", "complete", "failed", "", "dancing"} {
			t.Run(fsm.NodeStateName(from)+" "+status, func(t *testing.T) {
				p := nodeIn(t, from)
				before := getMachine(t, p, "m-1")
				c := reportOp(p, status)
				c.Report.HasProgress, c.Report.InstallationProgress = true, 40
				m := do(t, p, c).(*holdfastv1.Machine)
				want, moves := rows[row{status, from}]
				if !moves {
					want = from
				}
				if s := m.GetStatus(); s.GetNodeState() != want || !moves && s.GetPhase() != before.GetStatus().GetPhase() {
					t.Errorf("got %s in %s, want %s", s.GetNodeState(), s.GetPhase(), want)
				}
				if n := m.GetNode(); n.GetIpAddress() != "10.0.0.7" || n.GetLastSeenAt() == nil || n.GetHostname() != "n1" {
					t.Errorf("facts: got %v", n)
				}
				if from == installing && status == "progress" && m.GetNode().GetInstallProgress() != 40 {
					t.Errorf("progress: got %v", m.GetNode())
				}
				attempts := before.GetNode().GetInstallAttempts()
				if from == installing && status == "failed" {
					attempts++
				}
				if got := m.GetNode().GetInstallAttempts(); got != attempts {
					t.Errorf("attempts: got %d, want %d", got, attempts)
				}
				if err := fsmtest.Check(p.View()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestThreeStrikes checks that the node stays installing after two failures, and needs an
// operator after the third.
func TestThreeStrikes(t *testing.T) {
	p := nodeIn(t, installing)
	run := getMachine(t, p, "m-1").GetStatus().GetActiveRunId()
	for n := int32(1); n <= 2; n++ {
		before := len(history(p, "m-1"))
		m := report(t, p, "failed")
		if m.GetStatus().GetNodeState() != installing || m.GetNode().GetInstallAttempts() != n ||
			m.GetNode().GetLastInstallError() != "Disk not found" {
			t.Errorf("after failure %d: %v", n, m)
		}
		if after := len(history(p, "m-1")); after != before {
			t.Errorf("failure %d wrote %d transitions", n, after-before)
		}
	}
	m := report(t, p, "failed")
	if s := m.GetStatus(); s.GetNodeState() != installFailed || s.GetPhase() != maintenance ||
		!cond(m, "NeedsIntervention").GetStatus() || m.GetNode().GetInstallAttempts() != 3 {
		t.Errorf("after failure 3: %v", m)
	}
	for e := range p.View().History("m-1", 0) {
		if e.GetFacet() != "node" {
			continue
		}
		if diff := cmp.Diff(map[string]string{"error": "Disk not found", "attempt": "3"}, e.GetMetadata()); diff != "" ||
			e.GetTriggeredBy() != "node_report" || e.GetComment() != "" || e.GetRunId() != run {
			t.Errorf("history entry %v (-want +got):\n%s", e, diff)
		}
		break
	}
	r := getRun(t, p, run)
	if r.GetPhase() != holdfastv1.Run_FAILED || len(r.GetSteps()[0].GetAttempts()) != 3 ||
		r.GetError().GetAttempt() != 3 ||
		!strings.Contains(fsmtest.LogText(p.View(), run), "install attempt 3 failed: Disk not found") {
		t.Errorf("run: %v, log:\n%s", r, fsmtest.LogText(p.View(), run))
	}
	report(t, p, "started") // it waits for an operator
	if got := getMachine(t, p, "m-1").GetStatus().GetNodeState(); got != installFailed {
		t.Errorf("after another start: %s", got)
	}

	e := refused(t, p, move("m-1", pending, false), fsm.FailedPrecondition, fsm.ReasonInstallAttempts)
	if want := "Max install attempts (3) exceeded. Use force=true to reset and retry."; e.Message != want {
		t.Errorf("got %q, want %q", e.Message, want)
	}
	m = do(t, p, move("m-1", pending, true)).(*holdfastv1.Machine)
	if s := m.GetStatus(); s.GetNodeState() != pending || s.GetPhase() != ready ||
		m.GetNode().GetInstallAttempts() != 0 || m.GetNode().GetLastInstallError() != "" ||
		cond(m, "NeedsIntervention").GetStatus() {
		t.Errorf("after force: %v", m)
	}
	report(t, p, "started")
	if m := report(t, p, "complete"); m.GetStatus().GetNodeState() != installed || m.GetStatus().GetPhase() != ready {
		t.Errorf("after another install: %v", m)
	}
}

// TestObservedRun checks that an install that Holdfast has not started has a run, and that
// the executor cannot change it.
func TestObservedRun(t *testing.T) {
	p := nodePeer(t)
	do(t, p, &internalv1.UpdateNode{Id: "m-1", Node: &holdfastv1.NodeRecord{WorkflowId: "ubuntu"},
		Paths: []string{"workflow_id"}})
	do(t, p, move("m-1", pending, false))
	m := report(t, p, "started")
	id := m.GetStatus().GetActiveRunId()
	r := getRun(t, p, id)
	if !r.GetObserved() || r.GetType() != "REPAVE" || r.GetPlanId() != "ubuntu" ||
		r.GetPhase() != holdfastv1.Run_RUNNING || r.GetCurrentStep() != "install" ||
		m.GetStatus().GetPhase() != provisioning {
		t.Errorf("got %v on %v", r, m)
	}
	if pl, _ := p.View().Plan("ubuntu"); !pl.GetReferenced() {
		t.Error("the workflow's plan can still change")
	}
	refused(t, p, startOp("m-1", "q", "REPAVE", ""), fsm.FailedPrecondition, fsm.ReasonActiveRun)
	refused(t, p, &internalv1.DeleteMachine{MachineId: "m-1"}, fsm.FailedPrecondition, fsm.ReasonActiveRun)
	refused(t, p, &internalv1.BeginAttempt{RunId: id, Step: "install", Attempt: 2}, fsm.FailedPrecondition,
		fsm.ReasonRunObserved)
	refused(t, p, &internalv1.EndAttempt{RunId: id, Step: "install", Attempt: 1, Outcome: succeeded},
		fsm.FailedPrecondition, fsm.ReasonRunObserved)
	refused(t, p, &internalv1.AbortRun{RunId: id, Phase: holdfastv1.Run_FAILED,
		Error: &holdfastv1.RunError{Reason: "PlanMissing"}}, fsm.FailedPrecondition, fsm.ReasonRunObserved)
	m = report(t, p, "complete")
	if r := getRun(t, p, id); r.GetPhase() != holdfastv1.Run_SUCCEEDED || m.GetStatus().GetActiveRunId() != "" ||
		!cond(m, "Provisioned").GetStatus() {
		t.Errorf("got %v on %v", r, m)
	}
	if n := m.GetNode(); n.GetInstallStatus() != "complete" || n.GetInstallRunId() != id || n.GetInstallProgress() != 100 {
		t.Errorf("the last report: %v", n)
	}
}

func TestCanceledInstall(t *testing.T) {
	p := nodeIn(t, installing)
	id := getMachine(t, p, "m-1").GetStatus().GetActiveRunId()
	r := do(t, p, &internalv1.CancelRun{RunId: id, Reason: "wrong image"}).(*holdfastv1.Run)
	if s := getMachine(t, p, "m-1").GetStatus(); r.GetPhase() != holdfastv1.Run_CANCELED ||
		s.GetNodeState() != pending || s.GetPhase() != maintenance || s.GetActiveRunId() != "" {
		t.Errorf("got %v on %v: nobody would end it later", r, s)
	}
	do(t, p, &internalv1.CancelRun{RunId: id})
	report(t, p, "complete")
	if got := getMachine(t, p, "m-1").GetStatus().GetNodeState(); got != pending {
		t.Errorf("a report of a canceled install made it %s", got)
	}
	report(t, p, "started") // it runs anyway, and must be visible
	if s := getMachine(t, p, "m-1").GetStatus(); s.GetNodeState() != installing || s.GetActiveRunId() == id {
		t.Errorf("after another start: %v", s)
	}
}

// TestReportsOfOurOwnInstall checks that during an executed run reports are evidence for its
// step, which decides.
func TestReportsOfOurOwnInstall(t *testing.T) {
	p := nodeIn(t, pending)
	start(t, p, "m-1", "q", "", "ubuntu")
	begin(t, p, "run-q")
	report(t, p, "started")
	c := reportOp(p, "progress")
	c.Report.HasProgress, c.Report.InstallationProgress = true, 55
	do(t, p, c)
	report(t, p, "failed")
	m := report(t, p, "failed")
	if n := m.GetNode(); n.GetInstallStatus() != "failed" || n.GetInstallRunId() != "run-q" ||
		n.GetInstallProgress() != 55 || n.GetInstallAttempts() != 2 || n.GetLastInstallError() != "Disk not found" {
		t.Errorf("evidence: %v", n)
	}
	report(t, p, "failed")
	if m := report(t, p, "complete"); m.GetStatus().GetNodeState() != installing ||
		m.GetNode().GetInstallStatus() != "complete" || getRun(t, p, "run-q").GetPhase() != holdfastv1.Run_RUNNING {
		t.Errorf("reports have moved what the run moves: %v", m)
	}
	refused(t, p, move("m-1", installed, false), fsm.FailedPrecondition, fsm.ReasonActiveRun)
	refused(t, p, move("m-1", nodeRetired, true), fsm.FailedPrecondition, fsm.ReasonActiveRun)
	end(t, p, "run-q", succeeded)
	if s := getMachine(t, p, "m-1").GetStatus(); s.GetNodeState() != installed || s.GetPhase() != ready {
		t.Errorf("after the run: %v", s)
	}
}

func TestNodeIdentity(t *testing.T) {
	p := nodePeer(t)
	m := getMachine(t, p, "m-1")
	if s := m.GetStatus(); s.GetNodeState() != discovered || s.GetPhase() != factoryReady ||
		m.GetSpec().GetMacAddresses()[0] != nodeMAC || m.GetNode().GetStateChangedAt() == nil {
		t.Errorf("created: %v", m)
	}
	e := refused(t, p, &internalv1.CreateNode{MachineId: "m-2", MacAddress: "AABBCCDDEE01"}, fsm.AlreadyExists,
		"MACHINE_CONFLICT")
	if want := "Node with MAC aa:bb:cc:dd:ee:01 already exists"; e.Message != want {
		t.Errorf("got %q, want %q", e.Message, want)
	}
	refused(t, p, &internalv1.CreateNode{MachineId: "m-1", MacAddress: "02:00:00:00:00:09"}, fsm.AlreadyExists,
		"MACHINE_CONFLICT")
	refused(t, p, &internalv1.CreateNode{MachineId: "m-1", GeneratedId: true, MacAddress: "02:00:00:00:00:09"},
		fsm.Aborted, fsm.ReasonIDTaken)
	refused(t, p, &internalv1.CreateNode{MachineId: "m-2", MacAddress: "nonsense"}, fsm.InvalidArgument, "INVALID_FIELD")
	refused(t, p, &internalv1.CreateNode{MachineId: "m-2", MacAddress: "02:00:00:00:00:09",
		Node: &holdfastv1.NodeRecord{WorkflowId: "none"}}, fsm.NotFound, "PLAN_NOT_FOUND")
	for _, id := range []string{"m-1", nodeMAC, "AA-BB-CC-DD-EE-01"} {
		if m, ok := p.View().NodeByID(id); !ok || m.GetMachineId() != "m-1" {
			t.Errorf("NodeByID(%s): got %v, %t", id, m.GetMachineId(), ok)
		}
	}
	if _, ok := p.View().MachineByMAC("02:00:00:00:00:99"); ok {
		t.Error("an unknown MAC names a machine")
	}

	unknown := &internalv1.ReportNode{MachineId: "m-9",
		Report: &holdfastv1.ReportNodeRequest{MacAddress: "02-00-00-00-00-99", InstallationStatus: "started"}}
	e = refused(t, p, unknown, fsm.NotFound, fsm.ReasonNodeNotFound)
	if want := "Node with MAC 02:00:00:00:00:99 not found"; e.Message != want {
		t.Errorf("got %q, want %q", e.Message, want)
	}
	unknown.Discover = true
	m = do(t, p, unknown).(*holdfastv1.Machine)
	if s := m.GetStatus(); s.GetNodeState() != discovered || s.GetActiveRunId() != "" || m.GetMachineId() != "m-9" {
		t.Errorf("discovered: %v, want it to await approval", m)
	}
	next := &internalv1.ReportNode{MachineId: "m-10", Discover: true, DiscoverLimit: 1,
		Report: &holdfastv1.ReportNodeRequest{MacAddress: "02:00:00:00:00:98"}}
	refused(t, p, next, fsm.FailedPrecondition, fsm.ReasonDiscoveryFull)
	next.DiscoverLimit = 1000
	do(t, p, next)
	unknown.DiscoverLimit = 1 // a known machine reports as before
	do(t, p, unknown)
	bad := reportOp(p, "progress")
	bad.Report.InstallationProgress = 101
	refused(t, p, bad, fsm.InvalidArgument, "INVALID_FIELD")
	do(t, p, move("m-1", pending, false))
	noRun := reportOp(p, "started")
	noRun.RunId = ""
	refused(t, p, noRun, fsm.InvalidArgument, "INVALID_FIELD")
}

func TestUpdateNode(t *testing.T) {
	for _, tt := range []struct {
		name  string
		node  *holdfastv1.NodeRecord
		paths []string
		want  *holdfastv1.NodeRecord // fields set by clients; nil if refused
	}{
		{"one field", &holdfastv1.NodeRecord{GroupId: "g1", Arch: "arm64"}, []string{"group_id"},
			&holdfastv1.NodeRecord{Hostname: "n1", GroupId: "g1", Tags: []string{"gpu"}}},
		{"clear one", &holdfastv1.NodeRecord{}, []string{"hostname"}, &holdfastv1.NodeRecord{Tags: []string{"gpu"}}},
		{"all", &holdfastv1.NodeRecord{Arch: "arm64"}, nil, &holdfastv1.NodeRecord{Arch: "arm64"}},
		{"workflow", &holdfastv1.NodeRecord{WorkflowId: "ubuntu"}, []string{"workflow_id"},
			&holdfastv1.NodeRecord{Hostname: "n1", WorkflowId: "ubuntu", Tags: []string{"gpu"}}},
		{"no such workflow", &holdfastv1.NodeRecord{WorkflowId: "none"}, []string{"workflow_id"}, nil},
		{"add tags", &holdfastv1.NodeRecord{Tags: []string{"R7", "gpu"}}, []string{"tags.add"},
			&holdfastv1.NodeRecord{Hostname: "n1", Tags: []string{"gpu", "r7"}}},
		{"remove tags", &holdfastv1.NodeRecord{Tags: []string{"gpu", "none"}}, []string{"tags.remove"},
			&holdfastv1.NodeRecord{Hostname: "n1"}},
		{"replace tags", &holdfastv1.NodeRecord{Tags: []string{"b", "a"}}, []string{"tags"},
			&holdfastv1.NodeRecord{Hostname: "n1", Tags: []string{"b", "a"}}},
		{"empty tag", &holdfastv1.NodeRecord{Tags: []string{" "}}, []string{"tags"}, nil},
		{"what the server keeps", &holdfastv1.NodeRecord{}, []string{"install_attempts"}, nil},
		{"two lines", &holdfastv1.NodeRecord{Hostname: "a\nb"}, []string{"hostname"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := nodePeer(t)
			do(t, p, &internalv1.UpdateNode{Id: "m-1", Node: &holdfastv1.NodeRecord{Tags: []string{"gpu"}},
				Paths: []string{"tags"}})
			op := &internalv1.UpdateNode{Id: nodeMAC, Node: tt.node, Paths: tt.paths}
			if tt.want == nil {
				if r := p.Do(op); r.Err == nil {
					t.Errorf("got %v, want a refusal", r.Value)
				}
				return
			}
			got := proto.CloneOf(do(t, p, op).(*holdfastv1.Machine).GetNode())
			got.StateChangedAt = nil
			same(t, "node", tt.want, got)
			if h := history(p, "m-1"); !strings.HasPrefix(h[len(h)-1], "inventory:  -> node.") {
				t.Errorf("history: %v", h)
			}
		})
	}
	p := nodePeer(t)
	n := len(history(p, "m-1"))
	do(t, p, &internalv1.UpdateNode{Id: "m-1", Node: &holdfastv1.NodeRecord{Hostname: "n1"}, Paths: []string{"hostname"}})
	if got := len(history(p, "m-1")); got != n {
		t.Errorf("an update that changes nothing wrote history")
	}
	refused(t, p, &internalv1.UpdateNode{Id: "m-none"}, fsm.NotFound, fsm.ReasonNodeNotFound)
}

func TestStalled(t *testing.T) {
	p := nodeIn(t, installing)
	began := p.Now
	do(t, p, &internalv1.CreateNode{MachineId: "m-2", MacAddress: "02:00:00:00:00:02"})
	names := func(since time.Time, after string) (ids, keys []string) {
		for k, m := range p.View().Stalled(since, after) {
			ids, keys = append(ids, m.GetMachineId()), append(keys, k)
		}
		return ids, keys
	}
	if got, _ := names(began.Add(-time.Second), ""); got != nil {
		t.Errorf("stalled before it began: %v", got)
	}
	got, keys := names(began.Add(time.Hour), "")
	if !slices.Equal(got, []string{"m-1"}) {
		t.Errorf("stalled: got %v, want m-1 and not what awaits approval", got)
	}
	if got, _ := names(began.Add(time.Hour), keys[0]); got != nil {
		t.Errorf("after the last: %v", got)
	}
	report(t, p, "complete")
	if got, _ := names(began.Add(time.Hour), ""); got != nil {
		t.Errorf("after it is done: %v", got)
	}
}

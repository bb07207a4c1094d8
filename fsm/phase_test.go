package fsm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

type phase = holdfastv1.MachineStatus_Phase

// machineIn returns a peer with machine m in a phase other than PROVISIONING.
func machineIn(t *testing.T, ph phase) *fsmtest.Peer {
	t.Helper()
	p := fsmtest.NewPeer()
	register(t, p, "m", ph)
	return p
}

func TestPhasesByHand(t *testing.T) {
	allowed := map[phase][]phase{
		factoryReady: {ready, inService, maintenance, rma, retired},
		ready:        {inService, maintenance, rma, retired},
		inService:    {ready, maintenance, rma, retired},
		maintenance:  {ready, inService, rma, retired},
		rma:          {ready, maintenance, retired},
		retired:      nil,
	}
	for from, tos := range allowed {
		for n := range holdfastv1.MachineStatus_Phase_name {
			to := phase(n)
			t.Run(from.String()+" to "+to.String(), func(t *testing.T) {
				p := machineIn(t, from)
				entries := len(history(p, "m"))
				op := &internalv1.SetMachinePhase{MachineId: "m", Phase: to, Comment: "moved to rack r7"}
				before := getMachine(t, p, "m")
				if to == from {
					same(t, "no move", before, do(t, p, op))
					return
				}
				if !strings.Contains(" "+join(tos)+" ", " "+to.String()+" ") {
					e := refused(t, p, op, fsm.FailedPrecondition, "PHASE_TRANSITION")
					want := "nothing"
					if len(tos) > 0 {
						want = strings.ReplaceAll(join(tos), " ", ", ")
					}
					if !strings.HasSuffix(e.Message, " it can go to: "+want) {
						t.Errorf("got %q, want it to end with %q", e.Message, want)
					}
					return
				}
				do(t, p, op)
				m := getMachine(t, p, "m")
				if m.GetStatus().GetPhase() != to || m.GetStatus().GetPhaseChangedAt().AsTime() != p.Now ||
					m.GetRevision() != p.Index {
					t.Errorf("got %v, want %s", m, to)
				}
				all := history(p, "m")
				if diff := cmp.Diff("phase: "+from.String()+" -> "+to.String(), all[entries]); diff != "" {
					t.Errorf("history (-want +got):\n%s", diff)
				}
				for e := range p.View().History("m", 0) {
					if e.GetComment() != "moved to rack r7" || e.GetTriggeredBy() != "operator" {
						t.Errorf("history: got %v, want the comment", e)
					}
					break
				}
				if err := fsmtest.Check(p.View()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	p := machineIn(t, ready)
	refused(t, p, &internalv1.SetMachinePhase{MachineId: "nobody", Phase: ready}, fsm.NotFound, "MACHINE_NOT_FOUND")
	start(t, p, "m", "request-1", "REBOOT", "")
	for n := range holdfastv1.MachineStatus_Phase_name {
		e := refused(t, p, &internalv1.SetMachinePhase{MachineId: "m", Phase: phase(n)}, fsm.FailedPrecondition,
			fsm.ReasonActiveRun)
		if e.Meta["run_id"] != "run-request-1" {
			t.Errorf("during a run: got %v, want the run in it", e.Meta)
		}
	}
}

func join(phases []phase) string {
	var names []string
	for _, p := range phases {
		names = append(names, p.String())
	}
	return strings.Join(names, " ")
}

// TestPhaseByHandClearsIntervention checks that moving a machine back to service clears
// NeedsIntervention.
func TestPhaseByHandClearsIntervention(t *testing.T) {
	for to, want := range map[phase]bool{ready: false, inService: false, rma: true, retired: true} {
		p := machineIn(t, ready)
		start(t, p, "m", "request-1", "REBOOT", "")
		begin(t, p, "run-request-1")
		do(t, p, &internalv1.EndAttempt{RunId: "run-request-1", Step: "reboot", Attempt: 1, Outcome: failed, Permanent: true})
		if !cond(getMachine(t, p, "m"), "NeedsIntervention").GetStatus() {
			t.Fatal("a failure does not ask for a person")
		}
		do(t, p, &internalv1.SetMachinePhase{MachineId: "m", Phase: to})
		if got := cond(getMachine(t, p, "m"), "NeedsIntervention"); got.GetStatus() != want {
			t.Errorf("moved to %s: got %v, want %v", to, got, want)
		}
	}
}

// An inspection leaves the machine's phase and conditions unchanged, whatever its outcome.
func TestPhaseAfterInspection(t *testing.T) {
	for _, before := range []phase{factoryReady, ready, inService, maintenance, rma} {
		for _, outcome := range []holdfastv1.Attempt_Outcome{succeeded, failed, canceled} {
			p := machineIn(t, before)
			plan(t, p, "plan/x", "inspect")
			old := getMachine(t, p, "m")
			start(t, p, "m", "request-1", "", "plan/x")
			finish(t, p, "run-request-1", outcome)
			got := getMachine(t, p, "m")
			if got.GetStatus().GetPhase() != before || got.GetStatus().GetActiveRunId() != "" ||
				got.GetStatus().GetNodeState() != old.GetStatus().GetNodeState() {
				t.Errorf("after an inspection that was %s: %v, want phase %s", outcome, got.GetStatus(), before)
			}
			if diff := cmp.Diff(old.GetStatus().GetConditions(), got.GetStatus().GetConditions(),
				protocmp.Transform()); diff != "" {
				t.Errorf("after an inspection that was %s, conditions (-want +got):\n%s", outcome, diff)
			}
			if err := fsmtest.Check(p.View()); err != nil {
				t.Error(err)
			}
		}
	}
}

// A machine whose installs have failed three times waits for an operator, even after an
// inspection.
func TestInspectionKeepsInstallAttempts(t *testing.T) {
	for _, outcome := range []holdfastv1.Attempt_Outcome{succeeded, failed, canceled} {
		p := nodeIn(t, installing)
		for range 3 {
			report(t, p, "failed")
		}
		old := getMachine(t, p, "m-1")
		plan(t, p, "plan/x", "inspect")
		start(t, p, "m-1", "request-inspect", "", "plan/x")
		finish(t, p, "run-request-inspect", outcome)
		got := getMachine(t, p, "m-1")
		if got.GetStatus().GetNodeState() != installFailed || got.GetStatus().GetPhase() != maintenance ||
			got.GetNode().GetInstallAttempts() != old.GetNode().GetInstallAttempts() {
			t.Errorf("after an inspection that was %s: %v, want %v after %d attempts", outcome, got.GetStatus(), installFailed,
				old.GetNode().GetInstallAttempts())
		}
		report(t, p, "started")
		if now := getMachine(t, p, "m-1"); now.GetStatus().GetActiveRunId() != "" ||
			now.GetStatus().GetNodeState() != installFailed {
			t.Errorf("an installer that begins again is taken: %v", now.GetStatus())
		}
		if err := fsmtest.Check(p.View()); err != nil {
			t.Error(err)
		}
	}
}

// after is the state after a run: the phase ("" for the previous one), the node state, and
// the conditions that are true.
type after struct {
	phase, node string
	conds       map[string]bool
}

// wantProved checks the effects of a failed run, all but the last of whose steps succeeded.
func wantProved(t *testing.T, m *holdfastv1.Machine, steps []string) {
	t.Helper()
	done := steps[:len(steps)-1]
	if got, want := cond(m, "Provisioned").GetStatus(), slices.Contains(done, "repave"); got != want {
		t.Errorf("Provisioned is %v after %v, want %v", got, done, want)
	} else if want && (cond(m, "Provisioned").GetReason() != "Repaved" ||
		m.GetStatus().GetNodeState() != holdfastv1.Node_INSTALLED) {
		t.Errorf("the disk was written, and the machine says %v", m.GetStatus())
	}
	if got, want := cond(m, "InCustomerCluster").GetStatus(), slices.Contains(done, "join"); got != want {
		t.Errorf("InCustomerCluster is %v after %v, want %v", got, done, want)
	}
}

// A machine that was in service is in no cluster once its disk was written, even if the run
// fails later.
func TestRepavedAndNotJoined(t *testing.T) {
	p := machineIn(t, inService)
	plan(t, p, "plan/first", "repave", "join")
	start(t, p, "m", "request-0", "REPAVE", "plan/first")
	finish(t, p, "run-request-0", succeeded)
	plan(t, p, "plan/x", "repave", "join")
	for _, outcome := range []holdfastv1.Attempt_Outcome{failed, canceled} {
		id := "request-" + outcome.String()
		start(t, p, "m", id, "REPAVE", "plan/x")
		finish(t, p, "run-"+id, outcome)
		m := getMachine(t, p, "m")
		if cond(m, "InCustomerCluster").GetStatus() || !cond(m, "Provisioned").GetStatus() ||
			m.GetStatus().GetNodeState() != holdfastv1.Node_INSTALLED {
			t.Errorf("after a join that was %s: %v", outcome, m.GetStatus())
		}
	}
}

func TestPhasesAfterRuns(t *testing.T) {
	const unchanged = ""
	tests := []struct {
		name  string
		kind  string
		steps []string
		want  after // after success
		node  string
	}{
		{"repave", "REPAVE", []string{"netboot", "repave"},
			after{"READY", "INSTALLED", map[string]bool{"Provisioned": true}}, "INSTALL_FAILED"},
		{"repave and join", "REPAVE", []string{"repave", "join"}, after{"IN_SERVICE", "ACTIVE",
			map[string]bool{"Provisioned": true, "InCustomerCluster": true}}, "INSTALLED"},
		{"repave, join and verify", "REPAVE", []string{"netboot", "reboot", "repave", "join", "verify"},
			after{"IN_SERVICE", "ACTIVE", map[string]bool{"Provisioned": true, "InCustomerCluster": true}}, "INSTALLED"},
		{"join alone", "", []string{"join"}, after{"IN_SERVICE", "ACTIVE", map[string]bool{"InCustomerCluster": true}},
			unchanged},
		{"rma", "RMA", []string{"ssh", "rma"}, after{"RMA", unchanged, map[string]bool{}}, unchanged},
		{"rma by its type", "RMA", []string{"ssh"}, after{"RMA", unchanged, map[string]bool{}}, unchanged},
		{"rma by its step", "", []string{"rma"}, after{"RMA", unchanged, map[string]bool{}}, unchanged},
		{"reboot", "REBOOT", []string{"reboot"}, after{unchanged, unchanged, map[string]bool{}}, unchanged},
		{"upgrade", "UPGRADE", []string{"ssh", "verify"}, after{unchanged, unchanged, map[string]bool{}}, unchanged},
		{"net reconfig", "NET_RECONFIG", []string{"net"}, after{unchanged, unchanged, map[string]bool{}}, unchanged},
	}
	for _, tt := range tests {
		for _, before := range []phase{factoryReady, ready, inService, maintenance, rma} {
			run := func(t *testing.T, outcome holdfastv1.Attempt_Outcome) (*fsmtest.Peer, *holdfastv1.Machine,
				*holdfastv1.Machine) {
				p := machineIn(t, before)
				plan(t, p, "plan/x", tt.steps...)
				old := getMachine(t, p, "m")
				start(t, p, "m", "request-1", tt.kind, "plan/x")
				if err := fsmtest.Check(p.View()); err != nil {
					t.Error(err)
				}
				finish(t, p, "run-request-1", outcome)
				if err := fsmtest.Check(p.View()); err != nil {
					t.Error(err)
				}
				return p, old, getMachine(t, p, "m")
			}
			t.Run(tt.name+" from "+before.String(), func(t *testing.T) {
				_, old, m := run(t, succeeded)
				want := tt.want
				if want.phase == unchanged {
					want.phase = before.String()
				}
				if want.node == unchanged {
					want.node = nodeNow(old, m.GetStatus().GetPhase()).String()
				}
				got := after{m.GetStatus().GetPhase().String(), m.GetStatus().GetNodeState().String(), map[string]bool{}}
				for _, c := range m.GetStatus().GetConditions() {
					got.conds[c.GetType()] = c.GetStatus()
				}
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(after{})); diff != "" {
					t.Errorf("after success (-want +got):\n%s", diff)
				}
				if m.GetStatus().GetActiveRunId() != "" {
					t.Error("the machine is not free")
				}

				_, old, m = run(t, failed)
				wantNode := tt.node
				if wantNode == unchanged {
					wantNode = nodeNow(old, maintenance).String()
				}
				if c := cond(m, "NeedsIntervention"); m.GetStatus().GetPhase() != maintenance || !c.GetStatus() ||
					!strings.HasPrefix(c.GetReason(), "StepFailed: ") ||
					!strings.HasSuffix(c.GetReason(), "no answer from 10.0.0.9") || m.GetStatus().GetNodeState().String() != wantNode {
					t.Errorf("after failure: got %v, want MAINTENANCE, %s and the reason", m.GetStatus(), wantNode)
				}

				wantProved(t, m, tt.steps)

				p, _, m := run(t, canceled)
				wantProved(t, m, tt.steps)
				if c := cond(m, "Canceled"); m.GetStatus().GetPhase() != maintenance || !c.GetStatus() {
					t.Errorf("after cancel: got %v, want MAINTENANCE and the condition Canceled", m.GetStatus())
				}
				// The next run is allowed, and its success clears the condition.
				start(t, p, "m", "request-2", "REBOOT", "")
				finish(t, p, "run-request-2", succeeded)
				if got := getMachine(t, p, "m"); got.GetStatus().GetPhase() != maintenance ||
					cond(got, "Canceled").GetStatus() != (cond(m, "Canceled").GetReason() == "CanceledWhileErasing") {
					t.Errorf("reboot after cancel: got %v", got.GetStatus())
				}
			})
		}
	}
}

// TestRunsDrainTheirMachine checks that a repave or an RMA clears the cluster
// membership until it is observed again.
func TestRunsDrainTheirMachine(t *testing.T) {
	for kind, want := range map[string]string{"repave": "Repaved", "rma": "RMA", "reboot": "Joined"} {
		p := machineIn(t, ready)
		plan(t, p, "plan/join", "join")
		plan(t, p, "plan/x", kind)
		start(t, p, "m", "request-1", "", "plan/join")
		finish(t, p, "run-request-1", succeeded)
		joined := cond(getMachine(t, p, "m"), "InCustomerCluster")
		if !joined.GetStatus() || joined.GetReason() != "Joined" {
			t.Fatalf("after join: got %v", joined)
		}
		start(t, p, "m", "request-2", "", "plan/x")
		finish(t, p, "run-request-2", succeeded)
		c := cond(getMachine(t, p, "m"), "InCustomerCluster")
		if c.GetReason() != want || c.GetStatus() != (kind == "reboot") ||
			c.GetLastTransition().AsTime().Equal(p.Now) != (kind != "reboot") {
			t.Errorf("after %s: got %v, want %s", kind, c, want)
		}
	}
}

// nodeNow returns the node state of a machine without an install, in a new phase.
func nodeNow(old *holdfastv1.Machine, now phase) holdfastv1.Node_State {
	switch node := old.GetStatus().GetNodeState(); {
	case now == inService:
		return holdfastv1.Node_ACTIVE
	case node == holdfastv1.Node_ACTIVE:
		return holdfastv1.Node_INSTALLED
	default:
		return node
	}
}

// TestSuccessClearsIntervention checks that a successful run after a failed one clears
// NeedsIntervention.
func TestSuccessClearsIntervention(t *testing.T) {
	p := machineIn(t, inService)
	plan(t, p, "plan/x", "reboot")
	start(t, p, "m", "request-1", "REBOOT", "plan/x")
	finish(t, p, "run-request-1", failed)
	since := cond(getMachine(t, p, "m"), "NeedsIntervention").GetLastTransition()
	same(t, "last_transition", p.View().Meta().GetNow(), since)
	start(t, p, "m", "request-2", "REBOOT", "plan/x")
	finish(t, p, "run-request-2", succeeded)
	m := getMachine(t, p, "m")
	if c := cond(m, "NeedsIntervention"); c.GetStatus() || c.GetReason() != "RunSucceeded" ||
		c.GetLastTransition().AsTime() != p.Now {
		t.Errorf("got %v, want it cleared now", c)
	}
	if m.GetStatus().GetPhase() != maintenance || m.GetStatus().GetBanners() != nil {
		t.Errorf("got %v, want MAINTENANCE, the phase before the run, without a banner", m.GetStatus())
	}
	want := []string{
		"phase:  -> READY", "phase: READY -> IN_SERVICE", "node: PENDING -> ACTIVE",
		"phase: IN_SERVICE -> PROVISIONING",
		"condition: NeedsIntervention=false -> NeedsIntervention=true (StepFailed: reboot: no answer from 10.0.0.9)",
		"phase: PROVISIONING -> MAINTENANCE", "node: ACTIVE -> INSTALLED",
		"phase: MAINTENANCE -> PROVISIONING",
		"condition: NeedsIntervention=true (StepFailed: reboot: no answer from 10.0.0.9) -> NeedsIntervention=false " +
			"(RunSucceeded)", "phase: PROVISIONING -> MAINTENANCE",
	}
	if diff := cmp.Diff(want, history(p, "m")); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

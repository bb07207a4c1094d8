package fsm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const ofInstall = internalv1.LeaseRef_INSTALL

// observed begins the observed run of m-1 by a report, at a second of the lease clock.
func observed(t *testing.T, p *fsmtest.Peer, clock int64) *holdfastv1.Run {
	t.Helper()
	do(t, p, &internalv1.TransitionNode{Id: "m-1", State: pending})
	do(t, p, &internalv1.CheckpointLeases{ClockMs: clock * 1000})
	id := report(t, p, "started").GetStatus().GetActiveRunId()
	r, _ := p.View().Run(id)
	return r
}

// silent expires the recorded lease of an install.
func silent(t *testing.T, p *fsmtest.Peer, clock int64, run string) *holdfastv1.Run {
	t.Helper()
	expire(t, p, clock, lease(t, p, ofInstall, run).GetRef())
	r, _ := p.View().Run(run)
	return r
}

func TestInstallWithoutReportsEnds(t *testing.T) {
	p := nodePeer(t)
	run := observed(t, p, 100)
	if d := run.GetDeadline(); d == nil || !d.AsTime().Equal(p.Now.Add(2*time.Hour)) ||
		run.GetSteps()[0].GetTimeoutSeconds() != 7200 {
		t.Errorf("deadline %v of %v", d, run)
	}
	if r := silent(t, p, 100+7199, run.GetRunId()); fsm.Ended(r) {
		t.Fatalf("ended early: %v", r)
	}
	r := silent(t, p, 100+7200, run.GetRunId())
	e := r.GetError()
	if r.GetPhase() != holdfastv1.Run_FAILED || e.GetReason() != fsm.InstallTimeout || e.GetErrorClass() != "timeout" ||
		e.GetStep() != "install" || e.GetAttempt() != 1 ||
		!strings.Contains(e.GetMessage(), "has not reported for 2h0m0s") || r.GetDeadline() != nil {
		t.Errorf("got %v", r)
	}
	if s := r.GetSteps()[0]; s.GetState() != holdfastv1.StepStatus_FAILED ||
		s.GetAttempts()[0].GetOutcome() != holdfastv1.Attempt_FAILED {
		t.Errorf("got step %v", s)
	}
	m := getMachine(t, p, "m-1")
	if s := m.GetStatus(); s.GetNodeState() != installFailed || s.GetPhase() != maintenance ||
		s.GetActiveRunId() != "" || !strings.Contains(strings.Join(s.GetBanners(), ""), "InstallTimeout: install") {
		t.Errorf("got %v", m)
	}
	// A late report changes nothing, and the node can be installed again.
	if m := report(t, p, "complete"); m.GetStatus().GetNodeState() != installFailed {
		t.Errorf("got %v", m)
	}
	do(t, p, move("m-1", pending, true))
	if m := report(t, p, "started"); m.GetStatus().GetNodeState() != installing ||
		m.GetStatus().GetActiveRunId() == run.GetRunId() {
		t.Errorf("got %v", m)
	}
}

// TestReportsKeepAnInstallAlive checks that any report about the install counts, and that
// facts alone do not.
func TestReportsKeepAnInstallAlive(t *testing.T) {
	for status, alive := range map[string]bool{"started": true, "progress": true, "failed": true, "": false} {
		t.Run("status "+status, func(t *testing.T) {
			p := nodePeer(t)
			run := observed(t, p, 0)
			do(t, p, &internalv1.CheckpointLeases{ClockMs: 7000_000})
			p.Now = p.Now.Add(7000 * time.Second)
			report(t, p, status)
			was := run.GetDeadline().AsTime()
			run, _ = p.View().Run(run.GetRunId())
			if moved := run.GetDeadline().AsTime().After(was); moved != alive {
				t.Errorf("the deadline went from %v to %v", was, run.GetDeadline().AsTime())
			}
			if r := silent(t, p, 7200, run.GetRunId()); fsm.Ended(r) == alive {
				t.Errorf("after 7200 s: %v", r)
			}
			if r := silent(t, p, 14200, run.GetRunId()); !fsm.Ended(r) {
				t.Errorf("after 14200 s: %v", r)
			}
		})
	}
}

// TestAnExpiryThatCrossesAReport checks that a report before the expiry in the log wins.
func TestAnExpiryThatCrossesAReport(t *testing.T) {
	p := nodePeer(t)
	run := observed(t, p, 0)
	old := lease(t, p, ofInstall, run.GetRunId()).GetRef()
	report(t, p, "progress")
	expire(t, p, 9000, old)
	if r, _ := p.View().Run(run.GetRunId()); fsm.Ended(r) {
		t.Errorf("got %v", r)
	}
}

// TestTimeoutOfWorkflow checks that the timeout of the install step applies.
func TestTimeoutOfWorkflow(t *testing.T) {
	p := nodePeer(t)
	plan := planOf("slow", "ssh", "repave")
	plan.Steps[1].TimeoutSeconds = 600
	do(t, p, &internalv1.CreatePlan{Plan: plan})
	do(t, p, &internalv1.UpdateNode{Id: "m-1", Node: &holdfastv1.NodeRecord{WorkflowId: "slow"},
		Paths: []string{"workflow_id"}})
	run := observed(t, p, 0)
	if got := run.GetDeadline().AsTime().Sub(p.Now); got != 10*time.Minute {
		t.Errorf("the deadline is in %v", got)
	}
	if r := silent(t, p, 600, run.GetRunId()); r.GetError().GetReason() != fsm.InstallTimeout {
		t.Errorf("got %v", r)
	}
}

// TestTheLeaseEndsWithTheRun checks every way in which the run can end.
func TestTheLeaseEndsWithTheRun(t *testing.T) {
	for name, end := range map[string]func(p *fsmtest.Peer, run string){
		"complete": func(p *fsmtest.Peer, _ string) { report(t, p, "complete") },
		"canceled": func(p *fsmtest.Peer, run string) { do(t, p, &internalv1.CancelRun{RunId: run}) },
		"aborted": func(p *fsmtest.Peer, run string) {
			do(t, p, &internalv1.AbortRun{RunId: run, Phase: holdfastv1.Run_CANCELED})
		},
		"by an operator": func(p *fsmtest.Peer, _ string) { do(t, p, move("m-1", installed, false)) },
		"three strikes": func(p *fsmtest.Peer, _ string) {
			report(t, p, "failed")
			report(t, p, "failed")
			report(t, p, "failed")
		},
		"retired by hand": func(p *fsmtest.Peer, _ string) { do(t, p, move("m-1", nodeRetired, false)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := nodePeer(t)
			run := observed(t, p, 0).GetRunId()
			end(p, run)
			if l := lease(t, p, ofInstall, run); !l.GetGone() {
				t.Errorf("the lease goes on: %v", l)
			}
			before, _ := p.View().Run(run)
			if r := silent(t, p, 99999, run); !fsm.Ended(r) || r.GetPhase() != before.GetPhase() ||
				r.GetError().GetReason() == fsm.InstallTimeout {
				t.Errorf("got %v", r)
			}
			if err := fsmtest.Check(p.View()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestInstallReportedForeverEnds checks that reports keep an install alive for a day,
// or for three times its workflow's timeout, and no longer.
func TestInstallReportedForeverEnds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		quiet   int32 // of its workflow; 0 if it has none
		limit   int64
		message string
	}{
		{"without a workflow", 0, 86400, "has not finished in 24h0m0s"},
		{"a workflow that is quick", 600, 86400, "has not finished in 24h0m0s"},
		{"a workflow that is slow", 36000, 108000, "has not finished in 30h0m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := nodePeer(t)
			step := int64(7200)
			if tt.quiet > 0 {
				plan := planOf("slow", "ssh", "repave")
				plan.Steps[1].TimeoutSeconds = tt.quiet
				do(t, p, &internalv1.CreatePlan{Plan: plan})
				do(t, p, &internalv1.UpdateNode{Id: "m-1", Node: &holdfastv1.NodeRecord{WorkflowId: "slow"},
					Paths: []string{"workflow_id"}})
				step = int64(tt.quiet)
			}
			run := observed(t, p, 0)
			begin := run.GetStartedAt().AsTime()
			limit := lease(t, p, ofInstall, run.GetRunId()+"/limit").GetRef()
			for clock := step / 2; clock < tt.limit; clock += step / 2 {
				p.Now = begin.Add(time.Duration(clock) * time.Second)
				do(t, p, &internalv1.CheckpointLeases{ClockMs: clock * 1000})
				report(t, p, "progress")
			}
			expire(t, p, tt.limit-1, limit)
			run, _ = p.View().Run(run.GetRunId())
			if fsm.Ended(run) {
				t.Fatalf("ended early: %v", run)
			}
			if want := begin.Add(time.Duration(tt.limit) * time.Second); run.GetDeadline().AsTime().After(want) {
				t.Errorf("the deadline is %v, want none after %v", run.GetDeadline().AsTime(), want)
			}
			expire(t, p, tt.limit, limit)
			run, _ = p.View().Run(run.GetRunId())
			if e := run.GetError(); run.GetPhase() != holdfastv1.Run_FAILED || e.GetReason() != fsm.InstallTimeout ||
				!strings.Contains(e.GetMessage(), tt.message) {
				t.Errorf("got %v", run)
			}
			if s := getMachine(t, p, "m-1").GetStatus(); s.GetNodeState() != installFailed || s.GetPhase() != maintenance {
				t.Errorf("got %v", s)
			}
			for _, id := range []string{run.GetRunId(), run.GetRunId() + "/limit"} {
				if l := lease(t, p, ofInstall, id); !l.GetGone() && l.GetExpiredAt() == nil {
					t.Errorf("lease %s goes on: %v", id, l)
				}
			}
			if err := fsmtest.Check(p.View()); err != nil {
				t.Error(err)
			}
		})
	}
}

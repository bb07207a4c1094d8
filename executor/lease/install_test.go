package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	nodeMAC  = "aa:bb:cc:00:00:01"
	quiet    = 2 * time.Hour
	slackFor = time.Minute // after a failover; docs/decisions/0012-leases-have-a-clock-of-their-own.md
)

// install creates a node whose installer has reported its start, and returns the run.
func (l *lab) install() string {
	l.must(&internalv1.Command{Op: &internalv1.Command_CreateNode{CreateNode: &internalv1.CreateNode{MachineId: "n-1",
		MacAddress: nodeMAC}}})
	l.must(&internalv1.Command{
		Op: &internalv1.Command_TransitionNode{TransitionNode: &internalv1.TransitionNode{Id: "n-1",
			State: holdfastv1.Node_PENDING}}})
	return l.report("started").GetStatus().GetActiveRunId()
}

func (l *lab) report(status string) *holdfastv1.Machine {
	m, _ := l.must(&internalv1.Command{
		Op: &internalv1.Command_ReportNode{ReportNode: &internalv1.ReportNode{RunId: "run-1",
			Report: &holdfastv1.ReportNodeRequest{MacAddress: nodeMAC,
				InstallationStatus: status}}}}).Value.(*holdfastv1.Machine)
	return m
}

func (l *lab) run(id string) *holdfastv1.Run {
	synctest.Wait()
	r, _ := l.state.View().Run(id)
	return r
}

func (l *lab) wantRunning(id string) {
	l.t.Helper()
	if r := l.run(id); r.GetPhase() != holdfastv1.Run_RUNNING {
		l.t.Errorf("at %v: got run %v, want it running", time.Now(), r)
	}
}

func (l *lab) wantTimeout(id string) {
	l.t.Helper()
	if r := l.run(id); r.GetPhase() != holdfastv1.Run_FAILED || r.GetError().GetReason() != fsm.InstallTimeout {
		l.t.Errorf("at %v: got run %v, want it failed with %s", time.Now(), r, fsm.InstallTimeout)
	}
}

// An install without reports ends within its window; one with reports does not.
func TestInstallGoesSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		pass(time.Hour)
		run := l.install()
		for range 4 {
			pass(quiet - time.Second)
			l.wantRunning(run)
			l.report("progress")
		}
		pass(quiet - time.Second)
		l.wantRunning(run)
		pass(3 * time.Second)
		l.wantTimeout(run)
	})
}

// An install with endless reports still ends a day after its start.
func TestInstallNeverFinishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		run := l.install()
		for range 24 {
			pass(time.Hour - time.Second)
			l.wantRunning(run)
			l.report("progress")
		}
		pass(20 * time.Second)
		l.wantRunning(run)
		pass(4*time.Second + slackFor)
		l.wantTimeout(run)
	})
}

// An install is neither ended early nor kept alive by changes of the leader, time without a leader,
// or a clock that is a day ahead.
func TestInstallOutlivesLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		run := l.install()
		pass(quiet / 2)
		l.setSkew(24 * time.Hour)
		l.lead(10 * time.Minute)
		pass(quiet/2 - time.Minute)
		l.wantRunning(run)
		l.report("progress") // with a clock that is a day ahead
		l.setSkew(0)
		l.lead(time.Second)
		pass(quiet - time.Second)
		l.wantRunning(run)
		pass(slackFor + time.Second)
		l.wantTimeout(run)
	})
}

// An ended install has no lease to lose.
func TestInstallCompletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		run := l.install()
		pass(time.Minute)
		l.report("complete")
		pass(2 * quiet)
		if r := l.run(run); r.GetPhase() != holdfastv1.Run_SUCCEEDED {
			t.Errorf("got %v", r)
		}
	})
}

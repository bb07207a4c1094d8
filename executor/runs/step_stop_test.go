package runs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// presses lists the presses of a run, in order: soft-off, hard-off, on.
func (l *lab) presses(run string) []string {
	var ps []string
	for _, e := range l.Fleet.Effects("", run, 0) {
		switch e.Effect {
		case "power_off":
			ps = append(ps, e.Detail)
		case "power_on":
			ps = append(ps, "on")
		}
	}
	return ps
}

// An operating system that takes longer to power off than the settle time gets one request,
// whichever peer leads. A new leader waits for the rest of the grace time, and no longer.
func TestSoftOffIsRequestedOnce(t *testing.T) {
	for _, tc := range []struct {
		name     string
		kind     proto.Message
		shutdown time.Duration // of the operating system; the step allows 40 s
		die      []time.Duration
		want     []string
		took     time.Duration // maximum time until the power is off
	}{
		{"power off", &holdfastv1.Power{Action: "off", ShutdownSeconds: 40}, 30 * time.Second,
			[]time.Duration{5 * time.Second}, []string{"soft-off"}, 33 * time.Second},
		{"a leader every 8 s", &holdfastv1.Power{Action: "off", ShutdownSeconds: 40}, 30 * time.Second,
			[]time.Duration{5 * time.Second, 13 * time.Second, 21 * time.Second}, []string{"soft-off"}, 35 * time.Second},
		{"cycle", &holdfastv1.Power{Action: "cycle", ShutdownSeconds: 40}, 30 * time.Second,
			[]time.Duration{5 * time.Second}, []string{"soft-off", "on"}, 33 * time.Second},
		{"reboot", &holdfastv1.Reboot{Mode: "bmc", ShutdownSeconds: 40}, 30 * time.Second, []time.Duration{5 * time.Second},
			[]string{"soft-off", "on"}, 33 * time.Second},
		{"rma", &holdfastv1.RmaAction{ShutdownSeconds: 40}, 30 * time.Second, []time.Duration{5 * time.Second},
			[]string{"soft-off"}, 33 * time.Second},
		{"host ignores the shutdown", &holdfastv1.Power{Action: "off", ShutdownSeconds: 40}, time.Hour,
			[]time.Duration{5 * time.Second}, []string{"soft-off", "hard-off"}, 43 * time.Second},
		{"host ignores the shutdown of a reboot", &holdfastv1.Reboot{Mode: "bmc", ShutdownSeconds: 40}, time.Hour,
			[]time.Duration{5 * time.Second, 25 * time.Second}, []string{"soft-off", "hard-off", "on"}, 45 * time.Second},
		{"no leader at the end of the grace time", &holdfastv1.RmaAction{ShutdownSeconds: 3}, time.Hour,
			[]time.Duration{2 * time.Second}, []string{"soft-off", "hard-off"}, 10 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{ShutdownTime: fake.Duration(tc.shutdown)})
				l.Machine("m-1")
				s := stepOf("s", tc.kind)
				s.TimeoutSeconds = 300
				l.Plan("p", s)
				ld := l.lead(Config{})
				began := time.Now()
				id := l.Start("m-1", "", "p", nil).GetRunId()
				for _, at := range tc.die {
					time.Sleep(time.Until(began.Add(at))) // sleep: fake clock
					ld.Kill()
					<-ld.Done
					ld = l.lead(Config{})
				}
				run := l.Ended(id)
				if run.GetPhase() != holdfastv1.Run_SUCCEEDED {
					t.Fatalf("run: got %s: %v\n%s", run.GetPhase(), run.GetError(), l.Log(id, "system"))
				}
				if diff := cmp.Diff(tc.want, l.presses(id)); diff != "" {
					t.Errorf("presses (-want +got):\n%s\n%s", diff, l.Log(id, "system"))
				}
				if took := time.Since(began); took > tc.took {
					t.Errorf("took %s, want at most %s, because a new leader waits only for the rest", took, tc.took)
				}
				if seen := run.GetSteps()[0].GetAttempts()[0].GetEvidenceAfter(); seen["soft_off_at"] == "" ||
					seen["soft_off_until"] == "" {
					t.Errorf("got evidence %v, want the time of the request and the end of the grace time", seen)
				}
				ld.Stop()
			})
		})
	}
}

// A step with less time than the grace time still has time for the power button, even under the
// next leader.
func TestSoftOffLeavesTimeForTheButton(t *testing.T) {
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, fake.Config{ShutdownTime: fake.Duration(time.Hour)})
			l.Machine("m-1")
			s := stepOf("s", &holdfastv1.Power{Action: "off"})
			s.TimeoutSeconds = 30
			l.Plan("p", s)
			ld := l.lead(Config{})
			id := l.Start("m-1", "", "p", nil).GetRunId()
			if dies {
				time.Sleep(5 * time.Second) // sleep: fake clock
				ld.Kill()
				<-ld.Done
				l.lead(Config{})
			}
			run := l.Ended(id)
			if diff := cmp.Diff([]string{"soft-off", "hard-off"}, l.presses(id)); diff != "" ||
				run.GetPhase() != holdfastv1.Run_SUCCEEDED || len(run.GetSteps()[0].GetAttempts()) != 1 {
				t.Errorf("leader dies: %t: got run %s, presses (-want +got):\n%s\n%s", dies, run.GetPhase(), diff,
					l.Log(id, "system"))
			}
		})
	}
}

// TestSoftOffOfUnknownOutcome checks the case that the leader died between the intent and the
// request. The request is repeated once after the grace time, and both are in the evidence. The
// power is cut only if the system does not shut down after that.
func TestSoftOffOfUnknownOutcome(t *testing.T) {
	for _, tt := range []struct {
		name     string
		shutdown time.Duration
		again    bool // the next leader dies too, after its request
		want     []string
	}{
		{"host shuts down", 0, false, []string{"soft-off"}},
		{"host ignores the shutdown", time.Hour, false, []string{"soft-off", "hard-off"}},
		{"the next leader dies too", time.Hour, true, []string{"soft-off", "hard-off"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{ShutdownTime: fake.Duration(tt.shutdown)})
				p := stall(l, "soft-off")
				l.Machine("m-1")
				s := stepOf("s", &holdfastv1.Power{Action: "off", ShutdownSeconds: 20})
				s.TimeoutSeconds = 300
				l.Plan("p", s)
				first := l.lead(Config{})
				id := l.Start("m-1", "", "p", nil).GetRunId()
				<-p.come
				if r, _ := l.FSM.View().Run(id); r.GetWait().GetSubject() != "operating system" {
					t.Errorf("before the press: got wait %v", r.GetWait())
				}
				first.Kill()
				next := l.lead(Config{})
				if tt.again {
					l.Wait(id, "asked again", func(r *holdfastv1.Run) bool {
						return r.GetSteps()[0].GetAttempts()[0].GetEvidenceAfter()["soft_off_retry_at"] != "" && len(l.presses(id)) == 1
					})
					next.Kill()
					<-next.Done
					l.lead(Config{})
				}
				run := l.Ended(id)
				close(p.goOn)
				<-first.Done
				if diff := cmp.Diff(tt.want, l.presses(id)); diff != "" || run.GetPhase() != holdfastv1.Run_SUCCEEDED {
					t.Errorf("run: got %s, presses (-want +got):\n%s\n%s", run.GetPhase(), diff, l.Log(id, "system"))
				}
				if seen := run.GetSteps()[0].GetAttempts()[0].GetEvidenceAfter(); seen["soft_off_at"] == "" ||
					seen["soft_off_retry_at"] == "" {
					t.Errorf("got evidence %v, want both requests", seen)
				}
			})
		})
	}
}

package demo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// sound returns a demo of one machine without problems.
func sound() ([]*holdfastv1.Run, []fake.Effect, failover) {
	off := try(succeeded, map[string]string{"power": "on"})
	off.Number, off.Epochs = 2, []uint64{1, 2}
	first := try(failed, map[string]string{"power": "on"})
	first.Number = 1
	img := try(succeeded)
	img.Number = 1
	run := &holdfastv1.Run{RunId: "r-1", MachineId: "m-01", Phase: holdfastv1.Run_SUCCEEDED,
		Steps: []*holdfastv1.StepStatus{
			{Name: "s", Kind: "reboot", Attempts: []*holdfastv1.Attempt{first, off}},
			{Name: "i", Kind: "repave", Attempts: []*holdfastv1.Attempt{img}},
		}}
	effects := append(saw("2 power_off", "2 power_on", "2 boot_device"),
		fake.Effect{MachineID: "m-01", RunID: "r-1", Step: "i", Attempt: 1, Effect: install, Destructive: true})
	return []*holdfastv1.Run{run}, effects, failover{killed: "n1", leader: "n3", took: 38 * time.Millisecond,
		at: "2 of 5 steps"}
}

func TestReport(t *testing.T) {
	runs, effects, f := sound()
	r := newReport(1, runs, effects, f, 5678*time.Millisecond)
	if err := r.err(); err != nil {
		t.Errorf("demo without problems: got %v", err)
	}
	var out strings.Builder
	if err := r.write(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "report-sound.json", out.String())
	golden(t, "summary-sound.txt", r.summary())

	runs[0].Phase, runs[0].CurrentStep = holdfastv1.Run_RUNNING, "i"
	runs[0].Wait = &holdfastv1.Wait{Kind: holdfastv1.Wait_INSTALLER}
	r = newReport(2, runs, append(effects, effects...), failover{}, 5678*time.Millisecond)
	out.Reset()
	if err := r.write(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "report-broken.json", out.String())
	golden(t, "summary-broken.txt", r.summary())
	var code interface{ ExitCode() int }
	if err := error(brokenError{r.err()}); !errors.As(err, &code) || code.ExitCode() != 1 {
		t.Errorf("broken demo: got %v, want exit code 1", err)
	}
}

// Each broken promise alone fails the report.
func TestReportChecksGoals(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(runs []*holdfastv1.Run, effects []fake.Effect, f *failover) []fake.Effect
		want  string
	}{
		{"a run that failed", func(runs []*holdfastv1.Run, e []fake.Effect, _ *failover) []fake.Effect {
			runs[0].Phase, runs[0].Error = holdfastv1.Run_FAILED, &holdfastv1.RunError{Message: "no disk"}
			return e
		}, "1 of 1 runs did not succeed; run r-1 of m-01 is FAILED at step : no disk"},
		{"no kill", func(_ []*holdfastv1.Run, e []fake.Effect,
			f *failover) []fake.Effect {
			*f = failover{}
			return e
		}, "no leader was killed"},
		{"no adoption",
			func(_ []*holdfastv1.Run, e []fake.Effect,
				f *failover) []fake.Effect {
				f.leader = f.killed
				return e
			}, "no other peer has become the leader"},
		{"one press too many", func(_ []*holdfastv1.Run, e []fake.Effect,
			_ *failover) []fake.Effect {
			return append(e, e[0])
		}, "seen 2 times: power_off of m-01 by attempt 2 of step s of run r-1"},
		{"one install too few", func(_ []*holdfastv1.Run, e []fake.Effect, _ *failover) []fake.Effect { return e[:3] },
			"recorded, never seen: install of m-01 by attempt 1 of step i of run r-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			runs, effects, f := sound()
			effects = tt.spoil(runs, effects, &f)
			r := newReport(1, runs, effects, f, time.Second)
			if diff := cmp.Diff(tt.want, strings.Join(r.Problems, "; ")); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if r.OK || r.err() == nil {
				t.Error("got no problem")
			}
		})
	}
}

func TestReportLimitsProblems(t *testing.T) {
	var effects []fake.Effect
	for _, m := range inventory(100) {
		effects = append(effects, fake.Effect{MachineID: m.GetMachineId(), Effect: powerOff, Destructive: true})
	}
	_, _, f := sound()
	r := newReport(0, nil, effects, f, time.Second)
	if got := len(r.Problems); got != maxFindings+1 || r.Problems[maxFindings] != "and 90 more" {
		t.Errorf("got %d problems, the last %q", got, r.Problems[got-1])
	}
}

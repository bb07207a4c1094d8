package check

import (
	"fmt"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
	"github.com/holdfast-metal/holdfast/test/bmclab/control"
	"github.com/holdfast-metal/holdfast/test/robustness/site"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

const behind = "rb-bmc-0"

// pressed returns the observations of a BMC: a letter for each press.
func pressed(presses string) control.Seen {
	seen := control.Seen{Logins: 7, On: map[string]bool{site.System: true}}
	for _, l := range presses {
		e := redfishtest.Effect{Name: "reset", Detail: map[rune]string{'F': "ForceOff", 'f': "ForceOff", 'N': "On",
			'n': "On", 'R': "ForceRestart"}[l], Ignored: l == 'f' || l == 'n'}
		seen.Effects = append(seen.Effects, redfishtest.Effect{Name: "boot", Detail: "Pxe"}, e)
	}
	return seen
}

// powered returns a run of a plan with one attempt.
func powered(n int, plan, before string, outcome holdfastv1.Attempt_Outcome, leaders int) *holdfastv1.Run {
	a := &holdfastv1.Attempt{Number: 1, Outcome: outcome, EvidenceBefore: map[string]string{"power": before}}
	for i := range leaders {
		a.Epochs = append(a.Epochs, uint64(i+1))
	}
	r := &holdfastv1.Run{RunId: fmt.Sprint("r", n), MachineId: behind, PlanId: plan, Revision: uint64(n)}
	if plan == "rb-power-boot" { // its first step presses no button
		r.Steps = []*holdfastv1.StepStatus{{Name: "boot", Attempts: []*holdfastv1.Attempt{{Number: 1}}}}
	}
	r.Steps = append(r.Steps, &holdfastv1.StepStatus{Name: "restart", Attempts: []*holdfastv1.Attempt{a}})
	return r
}

func behindBMCs() *workload.History {
	h := of()
	h.Real = &workload.Real{BMCs: []string{behind}, Hosts: []string{"rb-host-0"}}
	return h
}

func TestPresses(t *testing.T) {
	const ok, failed = holdfastv1.Attempt_SUCCEEDED, holdfastv1.Attempt_FAILED
	cycle := func(n int, outcome holdfastv1.Attempt_Outcome, leaders int) *holdfastv1.Run {
		return powered(n, "rb-power-cycle", "on", outcome, leaders)
	}
	const wrong = "which are not those of its attempts"
	for name, tt := range map[string]struct {
		seen string
		runs []*holdfastv1.Run
		want string
	}{
		"a cycle":         {"FN", []*holdfastv1.Run{cycle(1, ok, 1)}, ""},
		"cycle while off": {"N", []*holdfastv1.Run{powered(1, "rb-power-cycle", "off", ok, 1)}, ""},
		"in order of the runs": {"FNF", []*holdfastv1.Run{powered(3, "rb-power-off", "on", ok, 1),
			cycle(1, ok, 1), powered(2, "rb-power-on", "on", ok, 1)}, ""},
		"a reboot":                                   {"FN", []*holdfastv1.Run{powered(1, "rb-power-boot", "on", ok, 1)}, ""},
		"off twice":                                  {"FFN", []*holdfastv1.Run{cycle(1, ok, 1)}, wrong},
		"off twice under two leaders":                {"FFN", []*holdfastv1.Run{cycle(1, ok, 2)}, wrong},
		"on twice under two leaders":                 {"FNN", []*holdfastv1.Run{cycle(1, ok, 2)}, wrong},
		"ignored under the first leader":             {"fFN", []*holdfastv1.Run{cycle(1, ok, 2)}, ""},
		"ignored more often than there were leaders": {"ffFN", []*holdfastv1.Run{cycle(1, ok, 2)}, wrong},
		"ignored, recorded as a success":             {"fN", []*holdfastv1.Run{cycle(1, ok, 1)}, wrong},
		"ignored, a failure":                         {"fFN", []*holdfastv1.Run{cycle(1, failed, 1), cycle(2, ok, 1)}, ""},
		"unrecorded press":                           {"N", []*holdfastv1.Run{powered(1, "rb-power-on", "on", ok, 1)}, wrong},
		"lost press":                                 {"", []*holdfastv1.Run{cycle(1, ok, 1)}, wrong},
		"late effect of a failed attempt": {"F", []*holdfastv1.Run{powered(1, "rb-power-off", "on", failed, 1),
			powered(2, "rb-power-off", "on", ok, 1)}, ""},
		"another button": {"FNR", []*holdfastv1.Run{cycle(1, ok, 1)}, wrong},
		"no run at all":  {"F", nil, wrong},
	} {
		t.Run(name, func(t *testing.T) {
			f := record()
			f.Runs, f.BMCs = tt.runs, []control.Seen{pressed(tt.seen)}
			expect(t, presses(behindBMCs(), f), tt.want)
		})
	}
}

func TestAtRestAndSessions(t *testing.T) {
	h, f := behindBMCs(), record()
	f.BMCs, f.Sessions = []control.Seen{pressed("FN")}, [][]string{nil}
	expect(t, settled(h, f), "no recorded attempt")
	f.Runs = []*holdfastv1.Run{powered(2, "rb-power-on", "off", holdfastv1.Attempt_SUCCEEDED, 1),
		powered(1, "rb-power-off", "on", holdfastv1.Attempt_SUCCEEDED, 1)}
	expect(t, settled(h, f), "")
	f.BMCs[0].On[site.System] = false
	expect(t, settled(h, f), "run r2 of rb-power-on has succeeded last")
	f.Runs[0].Steps[0].Attempts[0].Outcome = holdfastv1.Attempt_CANCELED
	expect(t, settled(h, f), "")

	expect(t, sessions(h, f), "")
	f.Sessions[0] = []string{"7 of admin"}
	expect(t, sessions(h, f), "sessions are left on the BMC of rb-bmc-0, 1m12s after its last use: [\"7 of admin\"]")
}

func TestStarts(t *testing.T) {
	h, f := behindBMCs(), record("q", "r")
	run, a := f.Runs[0], f.Runs[0].Steps[0].Attempts[0]
	run.PlanId, a.Outcome = workload.HostPlan, holdfastv1.Attempt_SUCCEEDED
	stdout, stderr := workload.HostOutput()
	f.Stdout["r"], f.Stderr = []byte(stdout), map[string][]byte{"r": []byte(stderr)}
	for name, tt := range map[string]struct{ starts, want string }{
		"once":         {"r-s-1;\n", ""},
		"twice":        {"r-s-1;\nr-s-1;\n", "was started 2 times on the host"},
		"never":        {"", "was started 0 times on the host"},
		"nothing":      {"", "no command was started"},
		"not recorded": {"r-s-1;\nr-s-2;\n", `as "r-s-2", which is no recorded attempt`},
	} {
		f.Starts = tt.starts
		t.Run(name, func(t *testing.T) { expect(t, starts(h, f), tt.want) })
	}
	f.Starts = "r-s-1;\n"
	f.Stdout["r"] = []byte(stdout + "line 12\n")
	expect(t, starts(h, f), "stdout of run r, which is SUCCEEDED")
	f.Stdout["r"] = []byte(stdout[7:])
	expect(t, starts(h, f), "stdout of run r")
	f.Stdout["r"], f.Stderr["r"] = []byte(stdout), []byte(stderr[:6])
	expect(t, starts(h, f), "stderr of run r")
	run.Phase, a.Outcome = holdfastv1.Run_CANCELED, holdfastv1.Attempt_CANCELED
	expect(t, starts(h, f), "")
	f.Stdout["r"] = []byte("line 1\nline 1\n")
	expect(t, starts(h, f), "stdout of run r, which is CANCELED")
}

package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

func TestExplainMachine(t *testing.T) {
	setPhase := func(p holdfastv1.MachineStatus_Phase) func(*testing.T, *nodetest.Node) {
		return func(t *testing.T, n *nodetest.Node) { n.Do(t, &internalv1.SetMachinePhase{MachineId: "m-1", Phase: p}) }
	}
	for _, tt := range []struct {
		name        string
		story       func(*testing.T, *nodetest.Node)
		summary     string
		waiting     string
		lastError   string
		suggestions []string
	}{
		{
			"idle", func(*testing.T, *nodetest.Node) {}, "nothing is to be waited for: no run is active", "", "",
			[]string{"holdfast machine history m-1"},
		},
		{
			"queued", func(t *testing.T, n *nodetest.Node) { n.Start(t, "m-1", "run-1", "") },
			"run run-1 (one) has not started, it is number 1 in the queue, and waits for the executor", "the executor", "",
			[]string{"holdfast run logs run-1 -f", "holdfast run cancel run-1"},
		},
		{
			"running", func(t *testing.T, n *nodetest.Node) { n.Start(t, "m-1", "run-1", ""); n.Begin(t, "run-1", 1) },
			"run run-1 (one) is at step one, attempt 1 of 3, and waits for the host", "the host", "",
			[]string{"holdfast run logs run-1 -f", "holdfast run cancel run-1"},
		},
		{
			"second attempt", func(t *testing.T, n *nodetest.Node) {
				n.Start(t, "m-1", "run-1", "")
				n.Begin(t, "run-1", 1)
				n.Do(t, &internalv1.EndAttempt{RunId: "run-1", Step: "one", Attempt: 1, Outcome: holdfastv1.Attempt_FAILED,
					Error: "no route to host"})
				n.Begin(t, "run-1", 2)
			}, "run run-1 (one) is at step one, attempt 2 of 3, and waits for the host", "the host", "no route to host",
			[]string{"holdfast run logs run-1 -f", "holdfast run cancel run-1"},
		},
		{
			"being canceled", func(t *testing.T, n *nodetest.Node) {
				n.Start(t, "m-1", "run-1", "")
				n.Begin(t, "run-1", 1)
				n.Do(t, &internalv1.CancelRun{RunId: "run-1"})
			}, "run run-1 (one) is at step one, attempt 1 of 3, is being canceled and waits for the current attempt to stop",
			"the current attempt to stop", "",
			[]string{"holdfast run logs run-1 -f"},
		},
		{
			"failed", func(t *testing.T, n *nodetest.Node) {
				n.Start(t, "m-1", "run-1", "")
				n.Finish(t, "run-1", holdfastv1.Attempt_FAILED)
			},
			"needs attention (NeedsIntervention: StepFailed: one: exit status 3); it stays out of service until an " +
				"operator moves it or a run succeeds; " +
				"no run is active; its last one, run run-1 (one), has failed at step one: exit status 3", "an operator",
			"exit status 3",
			[]string{"holdfast run logs run-1", "holdfast run start m-1 --plan one", "holdfast machine set-phase m-1 READY",
				"holdfast machine history m-1"},
		},
		{
			"canceled", func(t *testing.T, n *nodetest.Node) {
				n.Start(t, "m-1", "run-1", "")
				n.Do(t, &internalv1.CancelRun{RunId: "run-1"})
			},
			"it stays out of service until an operator moves it or a run succeeds; no run is active; its last one, run " +
				"run-1 (one), was canceled", "an operator", "canceled",
			[]string{"holdfast run logs run-1", "holdfast machine set-phase m-1 READY", "holdfast machine history m-1"},
		},
		{
			"maintenance by hand", setPhase(holdfastv1.MachineStatus_MAINTENANCE),
			"it stays out of service until an operator moves it or a run succeeds; no run is active", "an operator", "",
			[]string{"holdfast machine set-phase m-1 READY", "holdfast machine history m-1"},
		},
		{
			"rma", setPhase(holdfastv1.MachineStatus_RMA),
			"it is out for return or replacement until an operator moves it; no run is active", "", "",
			[]string{"holdfast machine set-phase m-1 READY", "holdfast machine set-phase m-1 RETIRED",
				"holdfast machine history m-1"},
		},
		{
			"retired", setPhase(holdfastv1.MachineStatus_RETIRED),
			"it is out of the inventory for good, no operation is allowed; no run is active", "", "",
			[]string{"holdfast machine delete m-1", "holdfast machine history m-1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := nodetest.New()
			_, c := serve(t, n, Config{})
			n.Machine(t, "m-1")
			tt.story(t, n)
			e, err := c.ExplainMachine(testCtx(t), &holdfastv1.ExplainMachineRequest{MachineId: "m-1"})
			if err != nil {
				t.Fatal(err)
			}
			got := []string{e.GetSummary(), e.GetWaitingFor(), e.GetLastError(), strings.Join(e.GetSuggestions(), "\n")}
			want := []string{tt.summary, tt.waiting, tt.lastError, strings.Join(tt.suggestions, "\n")}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if e.GetSince() == nil || e.GetMachineId() != "m-1" || e.GetEffectiveState() == 0 {
				t.Errorf("got %v", e)
			}
		})
	}
}

// The suggested command must have all parameters of the run after a shell has parsed it.
func TestStartAgain(t *testing.T) {
	long := strings.Repeat("x", longParam+1)
	for _, tt := range []struct {
		name string
		run  *holdfastv1.Run
		want []string
	}{
		{"type", &holdfastv1.Run{MachineId: "m-1", Type: "REBOOT", PlanId: "plan/reboot"},
			[]string{"run", "start", "m-1", "--type", "REBOOT"}},
		{
			"parameters", &holdfastv1.Run{MachineId: "m-1", Type: "REPAVE", PlanId: "p", Params: map[string]string{
				"image": "debian-13", "reason": `it's "$HOME"`, "net_config": "auto eth0\niface eth0", "empty": "",
			}},
			[]string{
				"run", "start", "m-1", "--type", "REPAVE", "--plan", "p", "--param", "empty=", "--param", "image=debian-13",
				"--param", "net_config=auto eth0\niface eth0", "--param", `reason=it's "$HOME"`,
			},
		},
		{
			"a long one", &holdfastv1.Run{RunId: "run-1", MachineId: "m-1", PlanId: "p",
				Params: map[string]string{"net_config": long}},
			[]string{"run", "start", "m-1", "--plan", "p", "--param", "net_config=" + long},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			record, err := protojson.Marshal(tt.run)
			if err != nil {
				t.Fatal(err)
			}
			// The shell runs the command; `run get` prints the record, and jq extracts
			// one parameter.
			script := "holdfast() { if [ \"$2\" = get ]; then cat record; else printf '%s\\0' \"$@\"; fi; }\n" +
				"jq() { sed 's/.*\"net_config\": *\"\\([^\"]*\\)\".*/\\1/'; }\n" + restartCommand(tt.run)
			cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
			cmd.Dir = t.TempDir()
			if err := os.WriteFile(filepath.Join(cmd.Dir, "record"), record, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}

package ui_test

import (
	"fmt"
	"net/url"
	"testing"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestCheck: errors of a plan are shown by field, with the text as it was typed. For a
// valid plan, the changes are shown. Nothing is stored.
func TestCheck(t *testing.T) {
	l := lab(t)
	l.Do(&internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "mine",
		Steps: []*holdfastv1.Step{{Name: "look", Kind: &holdfastv1.Step_Inspect{Inspect: &holdfastv1.Inspect{}}}}}})
	check := func(plan string, code int, want []string, not ...string) {
		t.Helper()
		has(t, post(l, "admin", "/ui/check", url.Values{"plan": {plan}}), code, want, not...)
	}
	check("plan_id: other\nsteps: [{name: a, reboot: {}}]", 200,
		[]string{"other is valid", "restarts the machine", "plan apply -f plan.yaml</code>"}, "Changes to the stored plan")
	check("plan_id: mine\nsteps: [{name: look, inspect: {}}, {name: a, reboot: {}}]", 200,
		[]string{"mine is valid", "Changes to the stored plan", "<ins>    mode: auto</ins>",
			"--replace"}, "<del>  name: look")
	check("plan_id: mine\nsteps: [{name: look, inspect: {}, nonsense: 1}]", 400,
		[]string{"nonsense", "nonsense: 1}]</textarea>"}, "is valid")
	check("plan_id: mine\nsteps: [{name: a, reboot: {}}, {name: a, reboot: {}}]", 400,
		[]string{`<ul class="trouble">`, "steps"}, "is valid")
	check("plan_id: \"</textarea>"+evil+"\"", 400, nil, evil, "</textarea><script")
	p, _ := l.State().Plan("mine")
	if _, there := l.State().Plan("other"); there || len(p.GetSteps()) != 1 {
		t.Error("got a stored plan")
	}
}

// TestProbe: probes of the leader are shown. An unknown or inaccessible machine is an error.
func TestProbe(t *testing.T) {
	l := lab(t)
	has(t, post(l, "operator", "/ui/probe/plan/inspect", url.Values{"machine": {"m-2"}}), 200,
		[]string{"It would fail on m-2", `value="m-2"`, "s-failed"})
	has(t, post(l, "operator", "/ui/probe/plan/inspect", url.Values{"machine": {"none"}}), 404,
		[]string{"none", `value="none"`})
	has(t, post(l, "elsewhere", "/ui/probe/plan/inspect", url.Values{"machine": {"m-1"}}), 404, nil)
	has(t, post(l, "operator", "/ui/probe/plan/inspect", url.Values{"machine": {"m-2"}, "params": {"nonsense"}}), 400,
		[]string{"is not key=value"})
}

// TestHeldPlan: the overview, the list and the page of a plan show for how long its brake holds it.
func TestHeldPlan(t *testing.T) {
	l := lab(t)
	step := &holdfastv1.Step{Name: "ssh", MaxRetries: proto.Int32(0),
		Kind: &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Command: "true"}}}
	l.Do(&internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "plan/x", Steps: []*holdfastv1.Step{step}}})
	for i := range 5 {
		m, run := fmt.Sprint("b-", i), fmt.Sprint("run-b-", i)
		l.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: m}})
		l.Do(&internalv1.StartRun{RunId: run, MachineId: m, RequestId: run, PlanId: "plan/x", DefaultTimeoutSeconds: 60})
		l.Do(&internalv1.BeginAttempt{RunId: run, Step: "ssh", Attempt: 1})
		l.Do(&internalv1.EndAttempt{RunId: run, Step: "ssh", Attempt: 1, Outcome: holdfastv1.Attempt_FAILED, Error: evil})
	}
	for path, want := range map[string]string{
		"/ui/": "held by its brake <span", "/ui/plans/plan/x": "held by its brake <span", "/ui/plans": `class="trouble"><span`,
	} {
		has(t, get(l, "viewer", path), 200, []string{want + ` title="since 20`, `>for <span class="num" data-since="20`}, evil)
	}
}

// TestDrillIsRefused: if the cluster tolerates no failure, the leadership is not
// transferred.
func TestDrillIsRefused(t *testing.T) {
	l := lab(t)
	has(t, get(l, "admin", "/ui/drill"), 409, []string{"tolerates no failure"}, "<form method=\"post\" class=\"card")
	has(t, post(l, "admin", "/ui/drill", nil), 409, []string{"tolerates no failure"}, "handed over to")
}

// TestConsole: console output is shown to everyone who may see the machine, without escape
// sequences and without the step's own log.
func TestConsole(t *testing.T) {
	l := lab(t)
	l.Do(&internalv1.StartRun{RunId: "run-c", MachineId: "m-1", RequestId: "r-c", PlanId: "plan/console",
		DefaultTimeoutSeconds: 60})
	l.Do(&internalv1.BeginAttempt{RunId: "run-c", Step: "console", Attempt: 1})
	for _, c := range []struct{ stream, text string }{{"events", "attempt 1 of console"},
		{"console", "\x1b[1mlogin: \x1b[0m" + evil}} {
		run, _ := l.State().Run("run-c")
		l.Do(&internalv1.AppendRunLogs{Appends: []*internalv1.LogAppend{{RunId: "run-c", Offset: run.GetLogBytes(),
			Chunks: []*holdfastv1.LogChunk{
				{Stream: c.stream, Step: "console", Attempt: 1, Data: []byte(c.text)}}}}})
	}
	has(t, get(l, "viewer", "/ui/machines/m-1/console"), 200, []string{"login: ", "run-c", "data-follow",
		`data-stream="console"`}, evil, "\x1b", "attempt 1 of console", "never opened")
	lines := listen(t, l, "/ui/runs/run-c/log?stream=console", "viewer", "")
	until(t, lines, "login: ")
}

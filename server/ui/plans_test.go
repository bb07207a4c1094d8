package ui_test

import (
	"net/url"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestCheck: a plan is looked at by the API, what is wrong stands with its field and the text as it
// was typed, what is right is shown with what it would change, and nothing is stored.
func TestCheck(t *testing.T) {
	l := lab(t)
	l.Do(&internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "mine", Steps: []*holdfastv1.Step{{Name: "look", Kind: &holdfastv1.Step_Inspect{Inspect: &holdfastv1.Inspect{}}}}}})
	check := func(plan string, code int, want []string, not ...string) {
		t.Helper()
		has(t, post(l, "admin", "/ui/check", url.Values{"plan": {plan}}), code, want, not...)
	}
	check("plan_id: other\nsteps: [{name: a, reboot: {}}]", 200, []string{"other is valid", "restarts the machine", "plan apply -f plan.yaml</code>"}, "What is different")
	check("plan_id: mine\nsteps: [{name: look, inspect: {}}, {name: a, reboot: {}}]", 200, []string{"mine is valid", "What is different", "<ins>    mode: auto</ins>", "--replace"}, "<del>  name: look")
	check("plan_id: mine\nsteps: [{name: look, inspect: {}, nonsense: 1}]", 400, []string{"nonsense", "nonsense: 1}]</textarea>"}, "is valid")
	check("plan_id: mine\nsteps: [{name: a, reboot: {}}, {name: a, reboot: {}}]", 400, []string{`<ul class="trouble">`, "steps"}, "is valid")
	check("plan_id: \"</textarea>"+evil+"\"", 400, nil, evil, "</textarea><script")
	p, _ := l.State().Plan("mine")
	if _, there := l.State().Plan("other"); there || len(p.GetSteps()) != 1 {
		t.Error("something was stored")
	}
}

// TestTry: what the leader has seen is shown; a machine that is not there, or not his, is said to
// be so.
func TestTry(t *testing.T) {
	l := lab(t)
	has(t, post(l, "operator", "/ui/try/plan/inspect", url.Values{"machine": {"m-2"}}), 200, []string{"It would fail on m-2", `value="m-2"`, "s-failed"})
	has(t, post(l, "operator", "/ui/try/plan/inspect", url.Values{"machine": {"none"}}), 404, []string{"none", `value="none"`})
	has(t, post(l, "elsewhere", "/ui/try/plan/inspect", url.Values{"machine": {"m-1"}}), 404, nil)
	has(t, post(l, "operator", "/ui/try/plan/inspect", url.Values{"machine": {"m-2"}, "params": {"nonsense"}}), 400, []string{"is not key=value"})
}

// TestDrillIsRefused: where no peer may be lost, none hands over, and the page says so.
func TestDrillIsRefused(t *testing.T) {
	l := lab(t)
	has(t, get(l, "admin", "/ui/drill"), 409, []string{"no peer may be lost now"}, "<form method=\"post\" class=\"card")
	has(t, post(l, "admin", "/ui/drill", nil), 409, []string{"no peer may be lost now"}, "handed over to")
}

// TestConsole: what a console has shown is there for all who see the machine, without what it does
// to a terminal, and without what the step says.
func TestConsole(t *testing.T) {
	l := lab(t)
	l.Do(&internalv1.StartRun{RunId: "run-c", MachineId: "m-1", RequestId: "r-c", PlanId: "plan/console", DefaultTimeoutSeconds: 60})
	l.Do(&internalv1.BeginAttempt{RunId: "run-c", Step: "console", Attempt: 1})
	for _, c := range []struct{ stream, text string }{{"events", "attempt 1 of console"}, {"console", "\x1b[1mlogin: \x1b[0m" + evil}} {
		run, _ := l.State().Run("run-c")
		l.Do(&internalv1.AppendRunLogs{Appends: []*internalv1.LogAppend{{RunId: "run-c", Offset: run.GetLogBytes(), Chunks: []*holdfastv1.LogChunk{
			{Stream: c.stream, Step: "console", Attempt: 1, Data: []byte(c.text)}}}}})
	}
	has(t, get(l, "viewer", "/ui/machines/m-1/console"), 200, []string{"login: ", "run-c", "data-follow", `data-stream="console"`}, evil, "\x1b", "attempt 1 of console", "never opened")
	lines := listen(t, l, "/ui/runs/run-c/log?stream=console", "viewer", "")
	until(t, lines, "login: ")
}

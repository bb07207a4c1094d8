package ui_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
)

// waveLab is a lab with the wave w-1: m-1 was refused, m-2 has a run, and many machines wait.
func waveLab(t *testing.T) *apitest.Lab {
	t.Helper()
	l := lab(t)
	start := &internalv1.StartWave{MachineIds: []string{"m-1", "m-2"}, Wave: &holdfastv1.Wave{WaveId: "w-1",
		PlanId: "plan/inspect", Type: "REBOOT", Filter: evil, MaxParallel: 7, MaxFailures: 3}}
	for i := range 119 {
		id := fmt.Sprintf("x-%03d", i)
		l.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: id}})
		start.MachineIds = append(start.MachineIds, id)
	}
	l.Do(start)
	l.Do(&internalv1.AdvanceWave{WaveId: "w-1", Start: &internalv1.StartRun{MachineId: "m-1"}, RefusalReason: "ACTIVE_RUN",
		Refusal: evil})
	l.Do(&internalv1.AdvanceWave{WaveId: "w-1", Start: &internalv1.StartRun{RunId: "run-w", MachineId: "m-2",
		DefaultTimeoutSeconds: 60}})
	return l
}

// TestWavePages checks the list, each column of the page of a wave, and the link of a run.
func TestWavePages(t *testing.T) {
	l := lab(t)
	has(t, get(l, "viewer", "/ui/waves"), 200, []string{"There are no waves yet", "<code>holdfast wave start "}, "<table")
	l = waveLab(t)
	not := []string{evil, "style=", "ZgotmplZ", "%!"}
	has(t, get(l, "viewer", "/ui/waves"), 200, []string{`href="/ui/waves/w-1"`, "1 wave<",
		`data-label="Waiting" class="num">119`}, not...)
	has(t, get(l, "operator", "/ui/waves/w-1"), 200, []string{
		"Running: 1 active, 119 waiting.", `class="t-open" x="8" width="8"`, ">121 machines<", ">1 refused<",
		"7 active runs, 3 failures",
		`<dt>last failure</dt><dd><a class="id" href="/ui/machines/m-1">m-1</a> &lt;script&gt;`, `href="/ui/plans/plan/inspect"`, "by tester",
		`<dd class="value">&lt;script&gt;`, `data-label="Machine"><a class="id" href="/ui/machines/m-1">`,
		`data-label="State"><span class="state s-refused">refused`,
		`data-label="Run"><a class="id run" href="/ui/runs/run-w">`,
		`data-label="Reason">ACTIVE_RUN<`, `data-label="Message" class="why">&lt;script&gt;`, "1 to 100 of 121 machines",
		`href="/ui/waves/w-1?from=101" rel="next"`, ">Cancel</a>", `aria-current="page">Waves`,
	}, append(not, "x-099", "Retry failed")...)
	has(t, get(l, "viewer", "/ui/waves/w-1?from=101"), 200,
		[]string{"101 to 121 of 121 machines", "x-118", "First page"}, `id="m-m-1"`, ">Cancel<", "Next page")
	has(t, get(l, "viewer", "/ui/waves/w-1?state=ACTIVE&from=9"), 200, []string{">1 machine<", `id="m-m-2"`}, `id="m-m-1"`)
	has(t, get(l, "viewer", "/ui/waves/w-1?state=FAILED"), 200,
		[]string{"No machine of this wave is in this state"}, "<table")
	has(t, get(l, "viewer", "/ui/waves/none"), 404, []string{`<a class="button" href="/ui/waves">Waves</a>`})
	has(t, get(l, "viewer", "/ui/runs/run-w"), 200, []string{`href="/ui/waves/w-1">w-1`})
	has(t, get(l, "viewer", "/ui/runs/run-1"), 200, nil, "/ui/waves/")
	has(t, get(l, "elsewhere", "/ui/waves/w-1"), 404, nil)
	has(t, get(l, "elsewhere", "/ui/runs/run-w"), 200, nil, "/ui/waves/w-1")
}

// TestWaveActions checks that waves are canceled and retried after the number of machines was
// typed.
func TestWaveActions(t *testing.T) {
	l := waveLab(t)
	before := l.Dump()
	form := url.Values{"typed": {"121"}, "comment": {"enough " + evil}, "request": {"w-2"}}
	for _, action := range []string{"cancel", "retry"} {
		path := "/ui/waves/w-1/" + action
		has(t, get(l, "viewer", path), 403, nil)
		has(t, post(l, "viewer", path, form), 403, nil)
		has(t, post(l, "elsewhere", path, form), 404, nil)
	}
	has(t, get(l, "operator", "/ui/waves/w-1/cancel"), 200,
		[]string{"Type <b>121</b>", "waiting machines: 119", "now 1, are canceled", `name="keep_runs"`})
	for _, typed := range []string{"", "1", "1211"} {
		has(t, post(l, "operator", "/ui/waves/w-1/cancel", url.Values{"typed": {typed}, "comment": {"old"},
			"keep_runs": {"1"}}), 400, []string{"type 121 to confirm", `value="old"`, " checked"})
	}
	has(t, get(l, "operator", "/ui/waves/w-1/retry"), 409, []string{"wait for its end"}, "Start the wave")
	if diff := cmp.Diff(before, l.Dump()); diff != "" {
		t.Errorf("state (-before +after):\n%s", diff)
	}
	has(t, post(l, "operator", "/ui/waves/w-1/cancel", form), 303, nil)
	has(t, get(l, "operator", "/ui/waves/w-1"), 200, []string{"Canceled by token:operator: enough &lt;script&gt;",
		"119 machines were not started.", ">Retry failed</a>"}, evil, ">Cancel</a>")
	has(t, get(l, "viewer", "/ui/waves/w-1"), 200, nil, "Retry failed")
	has(t, get(l, "operator", "/ui/waves/w-1/retry"), 200, []string{"Type <b>121</b>", "at most 7 at a time",
		"more than 3 failures", `name="request" value="wave-`})
	has(t, post(l, "operator", "/ui/waves/w-1/retry", url.Values{"request": {"w-2"}}), 400, []string{`value="w-2"`})
	for range 2 { // the form is sent twice
		w := post(l, "operator", "/ui/waves/w-1/retry", form)
		if w.Code != 303 || w.Header().Get("Location") != "/ui/waves/w-2" {
			t.Errorf("got %d to %s", w.Code, w.Header().Get("Location"))
		}
	}
	if w, _ := l.State().Wave("w-2"); w.GetRetryOf() != "w-1" || w.GetTotal() != 121 {
		t.Errorf("got wave %v", w)
	}
}

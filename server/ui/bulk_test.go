package ui_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
)

// addFleet adds n idle machines f-0 to f-(n-1) in rack r1.
func addFleet(l *apitest.Lab, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("f-%d", i))
		l.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: ids[i],
			Labels: map[string]string{"env": "lab"}, Spec: &holdfastv1.MachineSpec{Rack: "r1", Provider: "fake"}}})
	}
	return ids
}

// TestBulkSelect: the list has a checkbox for each machine and the actions of the user.
func TestBulkSelect(t *testing.T) {
	l := lab(t)
	has(t, get(l, "operator", "/ui/machines"), 200, []string{
		`name="m" value="m-1" form="bulk">`, `formaction="/ui/bulk/runs/power-off"`, "Select this page", `name="all"`,
	}, `form="bulk" checked`)
	has(t, get(l, "operator", "/ui/machines?select=page&sort=rack"), 200,
		[]string{`value="m-1" form="bulk" checked>`, "Select none", `href="/ui/machines?sort=rack"`})
	has(t, get(l, "viewer", "/ui/machines"), 200, []string{"m-1"}, `form="bulk"`, "Power off")
}

// TestBulkAsk: the confirmation page lists machines, states and effects. Destructive actions want
// the number of machines.
func TestBulkAsk(t *testing.T) {
	l := lab(t)
	addFleet(l, 3) // f-1 is in service, and its node in no cluster
	l.Do(&internalv1.SetMachinePhase{MachineId: "f-1", Phase: holdfastv1.MachineStatus_IN_SERVICE})
	const two = "?m=f-0&m=f-1&m=f-0"
	for path, want := range map[string][]string{
		"runs/power-on" + two:                     {"Power on 2 machines", "plan/power-on"},
		"runs/power-off" + two:                    {"Type <b>2</b>", "Workloads on these machines are interrupted"},
		"runs/power-off?all=1&filter=rack+%3D+r1": {"Power off 3 machines", "f-2", "Type <b>3</b>"},
		"runs/plan" + two:                         {"choose one", "plan/reboot", `name="m" value="f-1"`},
		"runs/plan" + two + "&plan=plan%2Frepave-join": {"will be lost", "Type <b>2</b>",
			"installs the image of the machine"},
		"runs/plan?m=m-1&m=f-0&plan=plan%2Finspect": {"refused while run-1 is active", "1 machine is expected"},
		"phase" + two:                              {"choose one", "MAINTENANCE"},
		"phase" + two + "&phase=MAINTENANCE":       {"READY → MAINTENANCE", "Set phase to MAINTENANCE"},
		"phase" + two + "&phase=RETIRED":           {"cannot be undone", "Type <b>2</b>", "1 machine is in service"},
		"labels/set" + two + "&key=env&value=prod": {"env: lab → prod"},
		"labels/set" + two + "&key=new&value=x":    {"new=x is added"},
		"labels/remove" + two:                      {"<option>env</option>"},
		"labels/remove?m=m-2&m=f-0&key=env": {"env=lab is removed", "no label env",
			"Remove a label from 2 machines", "The label env changes on 1 of 2 machines."},
		"labels/set?m=gone&m=f-0&key=a&value=b&filter=x%3D": {"not found", `href="/ui/machines?filter=x%3D"`},
	} {
		t.Run(path, func(t *testing.T) {
			has(t, get(l, "operator", "/ui/bulk/"+path), 200, want, evil, "style=", "ZgotmplZ", "%!")
		})
	}
	for path, want := range map[string]string{
		"phase":                                        "no machine is selected",
		"phase?all=1&filter=rack+%3D+none":             "no machine matches",
		"phase?all=1&filter=nonsense+%3D+none":         "there is no field",
		"labels/set?m=f-0&key=":                        "the key is missing",
		"runs/plan?m=f-0&params=x&plan=plan%2Finspect": "is not key=value",
	} {
		has(t, get(l, "operator", "/ui/bulk/"+path), 400, []string{want})
	}
	has(t, get(l, "operator", "/ui/bulk/runs/plan?m=f-0&plan=plan%2Fnone"), 404, []string{"plan/none"})
}

// TestBulkLimit checks that at most 500 machines are acted on at once.
func TestBulkLimit(t *testing.T) {
	l := lab(t)
	addFleet(l, 501)
	has(t, get(l, "operator", "/ui/bulk/phase?all=1&filter=rack+%3D+r1"), 400, []string{"more than 500 machines"})
	has(t, get(l, "operator", "/ui/bulk/phase?all=1&filter=rack+%3D+r1+AND+machine_id+!%3D+f-7"), 200,
		[]string{"Set the phase of 500 machines"})
}

// TestBulkDo: the action is done on each machine, a refusal stops no other, and a form that is
// submitted twice starts each run once.
func TestBulkDo(t *testing.T) {
	l := labWith(t, providers.SetOf(map[string]providers.Provider{"fake": fake.New(fake.NewFleet(fake.Config{}))}))
	ids := addFleet(l, 20)
	form := url.Values{"m": append(ids, "m-1"), "plan": {"plan/power-cycle"}, "request": {"q-1"}}
	before := l.Dump()
	for _, typed := range []string{"", "20", "f-0"} {
		form.Set("typed", typed)
		has(t, post(l, "operator", "/ui/bulk/runs/power-cycle", form), 400, []string{"nothing was done: type 21"})
	}
	if diff := cmp.Diff(before, l.Dump()); diff != "" {
		t.Fatalf("not confirmed: state (-before +after):\n%s", diff)
	}
	form.Set("typed", "21")
	for range 2 {
		has(t, post(l, "operator", "/ui/bulk/runs/power-cycle", form), 200, []string{
			"20 of 21 done, 1 refused", "has the active run run-1", "request_id&#43;%3D&#43;%22q-1%22", "Try again on 1",
		})
		runs := 0
		for _, r := range l.State().Runs("") {
			if r.GetRequestId() == "q-1" {
				runs++
			}
		}
		if runs != 20 {
			t.Errorf("got %d runs, want 20", runs)
		}
	}
}

// TestBulkChanges: phases and labels of several machines are changed.
func TestBulkChanges(t *testing.T) {
	l := lab(t)
	ids := addFleet(l, 3)
	do := func(path string, form url.Values) {
		t.Helper()
		form["m"] = ids
		has(t, post(l, "operator", "/ui/bulk/"+path, form), 200, []string{"3 of 3 done"}, "Try again")
	}
	do("phase", url.Values{"phase": {"MAINTENANCE"}, "comment": {"fans"}})
	do("labels/set", url.Values{"key": {"a.b"}, "value": {"x"}})
	do("labels/remove", url.Values{"key": {"env"}})
	for _, id := range ids {
		m, _ := l.State().Machine(id)
		if m.GetStatus().GetPhase() != holdfastv1.MachineStatus_MAINTENANCE {
			t.Errorf("%s: got phase %s", id, m.GetStatus().GetPhase())
		}
		if diff := cmp.Diff(map[string]string{"a.b": "x"}, m.GetLabels()); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", id, diff)
		}
	}
	has(t, post(l, "operator", "/ui/bulk/phase", url.Values{"m": ids, "phase": {"PROVISIONING"}}), 400,
		[]string{"the form is incomplete"})
}

// TestBulkUnknownOutcome checks that a machine whose outcome is unknown is not shown as refused.
func TestBulkUnknownOutcome(t *testing.T) {
	l := lab(t)
	ids := addFleet(l, 2)
	l.LoseOutcomes(true)
	has(t, post(l, "operator", "/ui/bulk/phase", url.Values{"m": ids, "phase": {"MAINTENANCE"}}), 200,
		[]string{"0 of 2 done, the outcome of 2 is unknown", "Try again on 2"}, ">refused<")
}

// TestBulkScope: machines outside the scope of the user are not found, and not changed.
func TestBulkScope(t *testing.T) {
	l := lab(t)
	before := l.Dump()
	has(t, get(l, "elsewhere", "/ui/bulk/phase?m=m-1&m=m-2&phase=MAINTENANCE"), 200, []string{"not found"}, "provisioning")
	w := post(l, "elsewhere", "/ui/bulk/phase", url.Values{"m": {"m-1"}, "phase": {"MAINTENANCE"}})
	has(t, w, 200, []string{"0 of 1 done, 1 refused"})
	if diff := cmp.Diff(before, l.Dump()); diff != "" {
		t.Errorf("state (-before +after):\n%s", diff)
	}
	if strings.Contains(w.Body.String(), "r7") {
		t.Error("got the rack of a machine outside the scope")
	}
}

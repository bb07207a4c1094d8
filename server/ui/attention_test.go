package ui_test

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestPoweredOffIsNeverGreen: a machine in service that is off needs attention on every page, and
// the tile links to the machines that it counts.
func TestPoweredOffIsNeverGreen(t *testing.T) {
	l := lab(t)
	l.Do(&internalv1.SetMachinePhase{MachineId: "m-2", Phase: holdfastv1.MachineStatus_IN_SERVICE})
	l.Do(&internalv1.ObserveConditions{Machines: []*internalv1.MachineConditions{{MachineId: "m-2",
		Conditions: []*holdfastv1.Condition{
			{Type: "BMCReachable", Status: true}, {Type: "InCustomerCluster", Status: true},
			{Type: "PoweredOn", Reason: "NotByRun"}, {Type: "Reachable", Reason: "PoweredOff"},
		}}}})
	list := "/ui/machines?filter=" + url.QueryEscape("needs_attention = true")
	has(t, get(l, "admin", "/ui/"), 200, []string{
		`href="/ui/machines?filter=needs_attention%20%3d%20true"><b>1</b><span>need attention</span>`,
		`<rect class="c-bad" x="0" y="0" width="12" height="12" rx="2"><title>m-2: in service, needs attention`,
		`<span class="state s-bad">in service</span></td><td data-label="Power"><span class="state p-off">off</span>`,
		"1 in need of attention",
	}, `s-in_service">`)
	has(t, get(l, "admin", list), 200, []string{`id="m-m-2"`, `s-bad">in service`, `p-off">off`,
		"ago, not by a run", `data-label="Why" class="why"`}, `id="m-m-1"`, "s-in_service")
	if page := get(l, "admin", "/ui/"); strings.Contains(page.Body.String(), "in no cluster") {
		t.Error("a machine in its cluster counts as in no cluster")
	}
	has(t, get(l, "admin", "/ui/machines/m-2"), 200, []string{`k-bad">false`, `p-off">power off`, `k-good">true`,
		`<section class="card grave" aria-labelledby="h-why">`}, "s-in_service")
}

// TestAbsentIsNotReady: a machine in service that its cluster does not have is in the state READY.
// The tile "ready" does not count it, because it is not free; a tile of its own does.
func TestAbsentIsNotReady(t *testing.T) {
	l := lab(t)
	ready := func() int {
		m := regexp.MustCompile(`<b>(\d+)</b><span>ready</span>`).FindStringSubmatch(get(l, "admin", "/ui/").Body.String())
		if m == nil {
			t.Fatal("there is no tile of ready machines")
		}
		n, _ := strconv.Atoi(m[1])
		return n
	}
	before := ready()
	l = lab(t) // the counts are cached
	l.Do(&internalv1.SetMachinePhase{MachineId: "m-2", Phase: holdfastv1.MachineStatus_IN_SERVICE})
	l.Do(&internalv1.ObserveConditions{Machines: []*internalv1.MachineConditions{{MachineId: "m-2",
		Conditions: []*holdfastv1.Condition{{Type: "InCustomerCluster", Reason: "NodeNotFound"}}}}})
	if got := ready(); got != before-1 {
		t.Errorf("got %d ready machines, want %d", got, before-1)
	}
	has(t, get(l, "admin", "/ui/"), 200, []string{"<b>1</b><span>in service, in no cluster</span>"})
	for filter, want := range map[string][2]string{
		"effective_state = READY AND phase != IN_SERVICE": {"m-1165a9b6", "m-m-2"},
		"effective_state = READY AND phase = IN_SERVICE":  {"m-m-2", "m-1165a9b6"},
	} {
		at := "filter=" + strings.ReplaceAll(url.QueryEscape(filter), "+", "%20")
		has(t, get(l, "admin", "/ui/machines?"+at), 200, []string{`id="` + want[0]}, `id="`+want[1])
	}
}

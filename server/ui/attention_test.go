package ui_test

import (
	"net/url"
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
	has(t, get(l, "admin", "/ui/machines/m-2"), 200, []string{`k-bad">false`, `p-off">power off`, `k-good">true`,
		`<section class="card grave" aria-labelledby="h-why">`}, "s-in_service")
}

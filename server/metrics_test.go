package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// TestMetrics scrapes the metrics like Prometheus.
func TestMetrics(t *testing.T) {
	n := nodetest.New()
	n.Machine(t, "old")
	n.Start(t, "old", "run-old", "")
	s, c := serve(t, n, Config{})
	n.Finish(t, "run-old", holdfastv1.Attempt_SUCCEEDED) // long ago, by the clock of its command
	n.Peer.Now = time.Now()
	for _, m := range []string{"m-1", "m-2", "m-3", "m-4"} {
		n.Machine(t, m)
		n.Start(t, m, "run-"+m, "")
	}
	n.Finish(t, "run-m-1", holdfastv1.Attempt_SUCCEEDED)
	n.Finish(t, "run-m-2", holdfastv1.Attempt_FAILED)
	n.Begin(t, "run-m-3", 1)
	n.Do(t, &internalv1.ObserveConditions{Machines: []*internalv1.MachineConditions{
		{MachineId: "m-3", Conditions: []*holdfastv1.Condition{{Type: "Reachable", Status: true}}},
		{MachineId: "m-4", Conditions: []*holdfastv1.Condition{{Type: "Reachable", Unknown: true, Reason: "NoProvider"}}}}})
	if _, err := c.GetMachine(testCtx(t), &holdfastv1.GetMachineRequest{MachineId: "m-1"}); err != nil {
		t.Fatal(err)
	}
	_, _ = c.GetMachine(testCtx(t), &holdfastv1.GetMachineRequest{MachineId: "x"})

	for range 2 { // the second scrape must not count again
		code, body := get(t, s, "GET", "/metrics")
		for _, want := range []string{
			`holdfast_machines{effective_state="PROVISIONING"} 2`,
			`holdfast_machines{effective_state="READY"} 2`,
			`holdfast_machines{effective_state="MAINTENANCE"} 1`,
			`holdfast_machines{effective_state="RMA"} 0`,
			`holdfast_condition{status="true",type="Reachable"} 1`,
			`holdfast_condition{status="unknown",type="Reachable"} 1`,
			`holdfast_condition{status="true",type="NeedsIntervention"} 1`,
			`holdfast_runs_active{phase="PENDING"} 1`,
			`holdfast_runs_active{phase="RUNNING"} 1`,
			`holdfast_run_steps_active{kind="ssh",type="PLAN"} 1`,
			`holdfast_runs_overdue{phase="PENDING"} 0`,
			`holdfast_run_wait_seconds_count{phase="FAILED"} 1`,
			`holdfast_run_step_seconds_count{kind="ssh",state="SUCCEEDED"} 1`,
			`holdfast_fsm_records{table="machines"} 5`,
			`holdfast_plans_held 0`,
			`holdfast_run_events_total 12`,
			`holdfast_runs_ended_total{phase="FAILED",type="PLAN"} 1`,
			`holdfast_runs_ended_total{phase="SUCCEEDED",type="PLAN"} 1`,
			`holdfast_run_seconds_count{phase="SUCCEEDED"} 1`,
			`holdfast_run_seconds_count{phase="CANCELED"} 0`,
			`holdfast_grpc_handled_total{code="OK",method="/holdfast.v1.MachineService/GetMachine"} 1`,
			`holdfast_grpc_handled_total{code="NotFound",method="/holdfast.v1.MachineService/GetMachine"} 1`,
			`holdfast_grpc_handling_seconds_count{method="/holdfast.v1.MachineService/GetMachine"} 2`,
		} {
			if code != 200 || !strings.Contains(body, want+"\n") {
				t.Errorf("%d, no %s in:\n%s", code, want, grep(body, want[:strings.IndexAny(want, "{ ")]))
			}
		}
	}
}

// A webhook whose receiver refuses events reports how far it is behind. A disabled one
// reports 0.
func TestWebhookMetrics(t *testing.T) {
	n := nodetest.New()
	for _, name := range []string{"fails", "off"} {
		n.Do(t, &internalv1.PutWebhook{Webhook: &holdfastv1.Webhook{Name: name, Url: "http://127.0.0.1:1/"}})
	}
	s, _ := serve(t, n, Config{})
	n.Machine(t, "m-1")
	n.Machine(t, "m-2")
	for _, name := range []string{"fails", "off"} {
		w, _ := n.Peer.FSM.View().Webhook(name)
		n.Do(t, &internalv1.NoteDelivery{Name: name, Cursor: w.GetCursor(), Failures: 3, LastError: "500", MissedTotal: 1})
	}
	n.Do(t, &internalv1.PutWebhook{Webhook: &holdfastv1.Webhook{Name: "off", Url: "http://127.0.0.1:1/", Disabled: true}})
	w, _ := n.Peer.FSM.View().Webhook("fails")
	if w.GetBehind() == 0 {
		t.Fatal("the webhook is not behind: this proves nothing")
	}
	code, body := get(t, s, "GET", "/metrics")
	for _, want := range []string{
		fmt.Sprintf(`holdfast_webhook_behind_events{webhook="fails"} %d`,
			w.GetBehind()), `holdfast_webhook_behind_events{webhook="off"} 0`,
		`holdfast_webhook_failures{webhook="fails"} 3`, `holdfast_webhook_failures{webhook="off"} 0`,
		`holdfast_webhook_missed_events_total{webhook="fails"} 1`,
	} {
		if code != 200 || !strings.Contains(body, want+"\n") {
			t.Errorf("%d, no %s in:\n%s", code, want, grep(body, "holdfast_webhook"))
		}
	}
}

func grep(text, prefix string) string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

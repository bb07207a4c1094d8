package specs_test

import (
	"encoding/json"
	"testing"
)

// nodeAPI is the node state machine document (spec 004): the life of a node, with refusals.
func nodeAPI(t *testing.T, w *world) {
	const report = "/api/v1/report"
	const mac = "aa:bb:cc:dd:ee:01"
	code, body := w.do(t, "operator", "POST", "/api/v1/nodes",
		`{"mac_address":"AA-BB-CC-DD-EE-01","hostname":"n1","arch":"x86_64","boot_mode":"uefi"}`)
	var made struct {
		Success bool
		Data    struct {
			ID    string
			State string
		}
	}
	if err := json.Unmarshal(body, &made); err != nil || code != 201 || !made.Success || made.Data.State != "discovered" {
		t.Fatalf("create: got %d %s, %v", code, body, err)
	}
	node := "/api/v1/nodes/" + made.Data.ID
	says := func(status string) string {
		return `{"mac_address":"` + mac + `","installation_status":"` + status + `","installation_error":"Disk not found"}`
	}
	w.run(t, []example{
		{"no token", "", "GET", "/api/v1/nodes", "", 401, "*"},
		{"change by a viewer", "viewer", "PATCH", node + "/state", `{"state":"pending"}`, 403, "*"},
		{"duplicate MAC", "operator", "POST", "/api/v1/nodes", `{"mac_address":"` + mac + `"}`, 409,
			`{"detail":"Node with MAC aa:bb:cc:dd:ee:01 already exists"}`},
		{"no MAC", "operator", "POST", "/api/v1/nodes", `{}`, 422,
			`{"detail":[{"loc":["body","mac_address"],"msg":"Field required","type":"missing"}]}`},
		{"unknown node", "operator", "GET", "/api/v1/nodes/nobody", "", 404, `{"detail":"Node not found"}`},
		{"by MAC", "viewer", "GET", "/api/v1/nodes/" + mac, "", 200, "*"},
		{"bad transition", "operator", "PATCH", node + "/state", `{"state":"active"}`, 400,
			`{"detail":"Invalid state transition from 'discovered' to 'active'. Valid transitions: ['pending', 'retired']"}`},
		{"unknown state", "operator", "PATCH", node + "/state", `{"state":"lost"}`, 422, "*"},
		{"approved", "operator", "PATCH", node + "/state", `{"state":"pending","comment":"welcome"}`, 200, "*"},
		{"workflow", "operator", "PATCH", node, `{"workflow_id":"plan/repave-join"}`, 200, "*"},
		{"report in a wrong state", "operator", "POST", report, says("complete"), 200, "*"},
		{"report of an unknown node", "operator", "POST", report, `{"mac_address":"aa:bb:cc:dd:ee:99"}`, 404, "*"},
		{"undocumented status", "operator", "POST", report, says("completed"), 422, "*"},
		{"started", "operator", "POST", report, says("started"), 200, "*"},
		{"first failure", "operator", "POST", report, says("failed"), 200, "*"},
		{"second failure", "operator", "POST", report, says("failed"), 200, "*"},
	})
	w.wantState(t, node, "installing")
	w.run(t, []example{{"third failure", "operator", "POST", report, says("failed"), 200, "*"}})
	w.wantState(t, node, "install_failed")
	w.run(t, []example{
		{"last transition", "viewer", "GET", node + "/history?limit=1", "", 200, `{"data":[{"id":"<uuid>","from_state":"installing","to_state":"install_failed","triggered_by":"node_report",
			"user_id":null,"comment":null,"metadata":{"error":"Disk not found","attempt":3},"created_at":"<time>"}],"total":3}`},
		{"pending without force", "operator", "PATCH", node + "/state", `{"state":"pending"}`, 400, "*"},
		{"force", "operator", "PATCH", node + "/state", `{"state":"pending","force":true}`, 200, "*"},
		{"restart", "operator", "POST", report, says("started"), 200, "*"},
		{"complete", "operator", "POST", report, says("complete"), 200, "*"},
		{"verified", "operator", "PATCH", node + "/state", `{"state":"active"}`, 200, "*"},
		{"tag", "operator", "POST", node + "/tags", `{"tag":"Rack-7"}`, 200, "*"},
		{"by tag", "viewer", "GET", "/api/v1/nodes?state=active&tag=rack-7", "", 200, "*"},
		{"history beyond its limit", "viewer", "GET", node + "/history?limit=201", "", 422, "*"},
		{"no stalled node", "viewer", "GET", "/api/v1/nodes/stalled", "", 200,
			`{"success":true,"data":[],"message":"","total":0}`},
		{"retired", "operator", "DELETE", node, "", 200, "*"},
		{"retired is final", "operator", "PATCH", node + "/state", `{"state":"pending","force":true}`, 400, "*"},
	})
}

func (w *world) wantState(t *testing.T, node, want string) {
	t.Helper()
	_, body := w.do(t, "viewer", "GET", node, "")
	var got struct{ Data struct{ State string } }
	if err := json.Unmarshal(body, &got); err != nil || got.Data.State != want {
		t.Errorf("state: got %s, want %s", body, want)
	}
}

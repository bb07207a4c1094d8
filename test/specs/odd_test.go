package specs_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// odd sends what scripts, broken sensors and careless clients send to the APIs: what can be
// understood is taken, and what cannot is refused with the member and what is allowed. It runs
// after the examples of the documents, whose machines, pools and services it uses.
func odd(t *testing.T, w *world) {
	const (
		register, keepalive = "/api/v1/machine/register", "/api/v1/machine/keepalive"
		discovery           = "/api/v1/management/discovery"
		service             = "550e8400-e29b-41d4-a716-446655440000"
		mac                 = "aa:bb:cc:dd:ee:0f"
	)
	machine := func(id string) string { return with(registration, "1165a9b6", id) }
	pool := func(members string) string { return `{"pool_id":"pool-1",` + members + `}` }
	provider := func(members string) string { return `{"provider_id":"p-9",` + members + `}` }

	// Bodies that say the same in other types.
	w.run(t, []example{
		{"numbers as text", "pool", "POST", "/v2/pools/register", pool(`"endpoint":"http://10.0.0.1:9200",
			"gpus":[{"id":"0","total_vram_gb":"24.0"}],"workers_total":"1","uptime_seconds":3600.0`), 200, "*"},
		{"a byte order mark", "pool", "POST", "/v2/pools/pool-1/heartbeat", "\ufeff" + pool(`"workers_total":1.0`), 200, "*"},
		{"port as text", "service", "POST", discovery + "/register",
			`{"id":"` + strings.ToUpper(service) + `","serviceName":"my-tool","host":"192.168.1.100","port":"9090","serviceType":"tool-invoker"}`,
			200, `{"error":null,"data":{"id":"<uuid>","serviceName":"my-tool","host":"192.168.1.100","port":9090,"serviceType":"tool-invoker",
			"serviceSubType":null,"languageName":null,"languageType":null,"languageSubType":null}}`},
		{"epoch milliseconds", "service", "POST", discovery + "/update/" + service,
			`{"timestamp":1736937000500,"healthy":"true","reason":"ok"}`, 200, ""},
		{"an id in capitals", "service", "POST", discovery + "/ping", strings.ToUpper(service), 200, ""},
		{"node", "operator", "POST", "/api/v1/nodes", `{"mac_address":"` + mac + `"}`, 201, "*"},
		{"force as text", "operator", "PATCH", "/api/v1/nodes/" + mac + "/state", `{"state":"pending","force":"true"}`, 200,
			"*"},
		{"started", "operator", "POST", "/api/v1/report", `{"mac_address":"` + mac + `","installation_status":"started"}`, 200,
			"*"},
		{"progress as text", "operator", "POST", "//api/v1//report",
			`{"mac_address":"` + mac + `","installation_status":"progress","installation_progress":"42"}`, 200, "*"},
		{"progress with a fraction of zero", "operator", "POST", "/api/v1/report",
			`{"mac_address":"` + mac + `","installation_status":"progress","installation_progress":43.0}`, 200, "*"},
		{"progress beyond all", "operator", "POST", "/api/v1/report",
			`{"mac_address":"` + mac + `","installation_status":"progress","installation_progress":"lots"}`, 422, "*"},
		{"impossible metrics", "machine", "POST", keepalive, `{"machine_id":"1165a9b6","pool_name":"gpu",
			"metrics":{"cpu_utilization_pct":-5,"memory_utilization_pct":4200,"free_gpu_count":8589934592,"total_cpu_available":1e300}}`,
			200, "*"},
	})
	if code, body := w.do(t, "", "GET", "/q/oidc/.well-known/openid-configuration", ""); code != 200 {
		t.Errorf("the default path of an issuer: got status %d: %s", code, body)
	}

	// A reset takes the progress back.
	for range 3 {
		w.do(t, "operator", "POST", "/api/v1/report", `{"mac_address":"`+mac+`","installation_status":"failed"}`)
	}
	_, body := w.do(t, "operator", "PATCH", "/api/v1/nodes/"+mac+"/state", `{"state":"pending","force":true}`)
	var reset struct {
		Data struct {
			State    string
			Attempts int `json:"install_attempts"`
			Progress int `json:"install_progress"`
		}
	}
	if err := json.Unmarshal(body, &reset); err != nil || reset.Data.State != "pending" || reset.Data.Attempts != 0 ||
		reset.Data.Progress != 0 {
		t.Errorf("reset: got %s, want a pending node without attempts and progress", body)
	}

	// Ids and values that nothing could use.
	refused := []example{
		{"machine in capitals", "gpu", "POST", register, machine("3365A9B6"), 500, "*"},
		{"pool in capitals", "admin", "POST", "/v2/pools/register",
			`{"pool_id":"POOL-1","endpoint":"http://10.0.0.1:9200"}`, 409, "*"},
		{"no endpoint", "pool", "POST", "/v2/pools/register", pool(`"endpoint":""`), 400, "*"},
		{"an endpoint that is none", "pool", "POST", "/v2/pools/register", pool(`"endpoint":"not a url"`), 400, "*"},
		{"a price below zero", "operator", "POST", "/v2/platform/providers/register",
			provider(`"endpoint":"https://p","pricing":{"per_hour":-1}`), 400, "*"},
		{"a provider without an endpoint", "operator", "POST", "/v2/platform/providers/register",
			provider(`"pricing":{"per_hour":1}`), 400, "*"},
		{"a MAC address of zeros", "operator", "POST", "/api/v1/nodes", `{"mac_address":"00:00:00:00:00:00"}`, 422, "*"},
		{"a MAC address of all", "operator", "POST", "/api/v1/nodes", `{"mac_address":"ff:ff:ff:ff:ff:ff"}`, 422, "*"},
		{"a MAC address of a group", "operator", "POST", "/api/v1/nodes", `{"mac_address":"01:00:5e:00:00:01"}`, 422, "*"},
		{"a service without a name", "service", "POST", discovery + "/register",
			`{"host":"h","port":1,"serviceType":"t"}`, 400, "*"},
		{"no API", "operator", "GET", "/machines/1165a9b6", "", 404, "*"},
	}
	for name, id := range map[string]string{"that is a dot": ".", "of two dots": "..", "that is a dash": "-",
		"with a line break": `1165a9b6\n`, "with a slash": "a/b"} {
		refused = append(refused,
			example{"machine " + name, "gpu", "POST", register, machine(id), 400, "*"},
			example{"provider " + name, "operator", "POST", "/v2/platform/providers/register",
				`{"provider_id":"` + id + `","endpoint":"https://p"}`, 400, "*"},
			example{"pool " + name, "admin", "POST", "/v2/pools/register",
				`{"pool_id":"` + id + `","endpoint":"https://p"}`, 400, "*"})
	}
	w.run(t, refused)

	// A plan in JSON is the plan itself, as a machine is.
	w.run(t, []example{{"a plan of the document", "operator", "POST", "/v1/plans",
		`{"plan_id":"plan/odd","steps":[{"name":"look","inspect":{}}]}`, 200, "*"}})

	// A machine that may not work is offered to no scheduler.
	w.run(t, []example{
		{"a machine for work", "gpu", "POST", register, machine("7765a9b6"), 200, "*"},
		{"ready", "gpu", "POST", keepalive, `{"machine_id":"7765a9b6","pool_name":"gpu"}`, 200, "*"},
	})
	offered := func() bool {
		_, body := w.do(t, "viewer", "GET", "/api/v1/machine/list", "")
		return strings.Contains(string(body), "7765a9b6")
	}
	if !offered() {
		t.Error("a ready machine is not offered")
	}
	if code, body := w.do(t, "operator", "POST", "/v1/machines/7765a9b6/phase", `{"phase":"MAINTENANCE"}`); code != 200 {
		t.Fatalf("set the phase: got status %d: %s", code, body)
	}
	if offered() {
		t.Error("a machine in maintenance is offered for work")
	}
}

package specs_test

import (
	"encoding/json"
	"fmt"
	"testing"
)

// discoveryAPI is the service discovery document (spec 003), example by example.
func discoveryAPI(t *testing.T, w *world) {
	const base = "/api/v1/management/discovery"
	const never = "00000000-0000-4000-8000-000000000000"
	w.run(t, []example{
		{"no token", "", "POST", base + "/register", `{}`, 401, "*"},
		{"token of another kind", "machine", "POST", base + "/register", `{}`, 403, "*"},
		{"malformed", "service", "POST", base + "/register", `[`, 400, "*"},
		{"no name", "service", "POST", base + "/register", `{"host":"h","port":1,"serviceType":"tool-invoker"}`, 400, "*"},
		{"ping of an unknown service", "service", "POST", base + "/ping/", never, 404, "*"},
		{"update of an unknown service", "service", "POST", base + "/update/" + never,
			`{"healthy":true,"reason":"healthy","timestamp":1736937000.5}`, 404, "*"},
		{"register with an id", "service", "POST", base + "/register", `{
  "id": "550e8400-e29b-41d4-a716-446655440000",
  "serviceName": "my-tool",
  "host": "192.168.1.100",
  "port": 9090,
  "serviceType": "tool-invoker",
  "serviceSubType": "jvm",
  "languageName": "Java",
  "languageType": "compiled",
  "languageSubType": "jvm"
}`, 200, `{"error":null,"data":{"id":"<uuid>","serviceName":"my-tool","host":"192.168.1.100","port":9090,"serviceType":"tool-invoker","serviceSubType":"jvm",
			"languageName":"Java","languageType":"compiled","languageSubType":"jvm"}}`},
		{"update", "service", "POST", base + "/update/550e8400-e29b-41d4-a716-446655440000", `{
  "timestamp": "2025-01-15T10:30:00Z",
  "healthy": true,
  "reason": "healthy"
}`, 200, ""},
	})
	code, body := w.do(t, "service", "POST", base+"/register",
		`{"id":null,"serviceName":"other","host":"10.0.0.1","port":9091,"serviceType":"resource-provider"}`)
	var first struct {
		Error any
		Data  map[string]any
	}
	if err := json.Unmarshal(body, &first); err != nil || code != 200 || len(first.Data) != 9 {
		t.Fatalf("register without an id: got %d %s, %v", code, body, err)
	}
	id, _ := first.Data["id"].(string)
	if len(id) != 36 {
		t.Errorf("got id %q, want a UUID", id)
	}
	again := fmt.Sprintf(
		`{"id":%q,"serviceName":"other","host":"10.0.0.2","port":9091,"serviceType":"resource-provider"}`, id)
	w.run(t, []example{
		{"ping", "service", "POST", base + "/ping", id, 200, ""},
		{"ping with a slash", "service", "POST", base + "/ping/", id, 200, ""},
		{"deregister", "service", "POST", base + "/deregister", again, 200, ""},
		{"deregister again", "service", "POST", base + "/deregister", again, 200, ""},
		{"ping after deregistration", "service", "POST", base + "/ping", id, 200, ""},
		{"not listed", "viewer", "GET", "/api/v1/capabilities/resources/state", "", 200, `{"error":null,"data":{}}`},
	})
	code, body = w.do(t, "service", "POST", base+"/register", again)
	var second struct{ Data map[string]any }
	if err := json.Unmarshal(body, &second); err != nil || code != 200 || second.Data["id"] != id {
		t.Errorf("register again: got %d %s, want the id %s", code, body, id)
	}
}

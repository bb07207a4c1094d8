package specs_test

import (
	"strings"
	"testing"
)

const registration = `{
    "token": "abc123...",
    "machine_id": "1165a9b6",
    "hostname": "my-gpu-worker",
    "provider_name": "generic",
    "pool_name": "gpu",
    "cpu": "8000m",
    "memory": "16Gi",
    "gpu_count": "1",
    "private_ip": "192.168.1.100"
  }`

func with(body, old, replacement string) string { return strings.Replace(body, old, replacement, 1) }

// machineAPI is the machine registration document (spec 000).
func machineAPI(t *testing.T, w *world) {
	const register, keepalive = "/api/v1/machine/register", "/api/v1/machine/keepalive"
	const expired = `{"message":"Machine state expired","error_code":"machine_not_found","suggestion":"Register the machine again: POST /api/v1/machine/register"}`
	w.run(t, []example{
		{"no token", "", "POST", register, registration, 401, `{"message":"Unauthorized"}`},
		{"token of another kind", "viewer", "POST", register, registration, 403,
			`{"message":"Invalid token","error_code":"invalid_token"}`},
		{"token of a service", "service", "POST", register, registration, 403,
			`{"message":"Invalid token","error_code":"invalid_token"}`},
		{"malformed", "machine", "POST", register, `{"machine_id":`, 400, "*"},
		{"missing field", "machine", "POST", register, with(registration, `"hostname": "my-gpu-worker",`, ""), 400,
			`{"message":"Invalid payload","suggestion":"missing or empty: hostname"}`},
		{"bad cpu", "machine", "POST", register, with(registration, "8000m", "eight"), 500,
			`{"message":"Invalid machine cpu value"}`},
		{"bad memory", "machine", "POST", register, with(registration, "16Gi", "16Qi"), 500,
			`{"message":"Invalid machine memory value"}`},
		{"bad gpu count", "machine", "POST", register, with(registration, `"gpu_count": "1"`, `"gpu_count": "-1"`), 500,
			`{"message":"Invalid gpu count"}`},
		{"too large", "machine", "POST", register, `{"x":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "*"},
		{"unknown pool", "gpu", "POST", register, with(with(registration, `"gpu"`, `"cpu"`), "1165a9b6", "2265a9b6"), 500,
			`{"message":"Invalid pool name"}`},
		{"another machine", "machine", "POST", register, with(registration, "1165a9b6", "2265a9b6"), 403,
			`{"message":"Invalid token","error_code":"invalid_token"}`},

		{"registered", "machine", "POST", register, registration, 200,
			`{"config":null,"machine_state":{"machine_id":"1165a9b6","status":"registered","pool_name":"gpu","ttl_seconds":300}}`},
		{"no ready machine", "gpu", "GET", "/api/v1/machine/list", "", 200, `[]`},
		{"keepalive without a machine", "machine", "POST", keepalive, `{"agent_version":"0.1.0"}`, 400,
			`{"message":"machine_id and pool_name are required","suggestion":"missing or empty: machine_id, pool_name"}`},
		{"first keepalive", "machine", "POST", keepalive, `{
    "machine_id": "1165a9b6",
    "pool_name": "gpu",
    "agent_version": "0.1.0"
  }`, 200, `{"status":"ok","next_keepalive_ms":"<about a minute>","machine_state":{"machine_id":"1165a9b6","status":"ready","pool_name":"gpu","last_keepalive":"<unix>","ttl_seconds":300,"agent_version":"0.1.0"}}`},
		{"keepalive with metrics", "machine", "POST", keepalive + "/", `{
  "machine_id": "1165a9b6",
  "provider_name": "generic",
  "pool_name": "gpu",
  "agent_version": "0.1.0-python",
  "metrics": {
    "cpu_utilization_pct": 15.5,
    "memory_utilization_pct": 42.3,
    "total_cpu_available": 8000,
    "total_memory_available": 16384,
    "free_gpu_count": 1
  }
}`, 200, "*"},
		{"keepalive of real agents", "machine", "POST", keepalive, `{"machine_id":"1165a9b6","pool_name":"gpu","inference":{"status":"running"},
			"metrics":{"cpu_utilization_pct":"15.5","total_memory_available":17179869184,"worker_count":3}}`, 200, "*"},
		{"keepalive of another machine", "machine", "POST", keepalive, `{"machine_id":"2265a9b6","pool_name":"gpu"}`, 403,
			`{"message":"Invalid token","error_code":"invalid_token"}`},
		{"keepalive of an unknown machine", "gpu", "POST", keepalive, `{"machine_id":"2265a9b6","pool_name":"gpu"}`, 500,
			expired},
		{"config", "machine", "GET", "/api/v1/machine/config", "", 200, `{"config":null}`},

		{"new machine with the token of a pool", "gpu", "POST", register, with(registration, "1165a9b6", "3365a9b6"), 200,
			`{"config":null,"machine_state":{"machine_id":"3365a9b6","status":"registered","pool_name":"gpu","ttl_seconds":300}}`},
		{"numbers for strings", "gpu", "POST", register, `{"token":"","machine_id":"4465a9b6","hostname":"h","pool_name":"gpu","cpu":8,"memory":2048,"gpu_count":0,"private_ip":"10.0.0.1","x":1}`, 200, "*"},
		{"an agent sees itself", "machine", "GET", "/api/v1/machine/list?pool_name=gpu", "", 200, "*"},
		{"no other pool", "gpu", "GET", "/api/v1/machine/list?pool_name=none", "", 200, `[]`},
		{"register again", "machine", "POST", register + "/", registration, 200, "*"},
		{"back to registered", "gpu", "GET", "/api/v1/machine/list/", "", 200, `[]`},
	})
}

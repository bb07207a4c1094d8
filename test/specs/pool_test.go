package specs_test

import "testing"

// poolAPI is the pool registration document (spec 001).
func poolAPI(t *testing.T, w *world) {
	const heartbeat = `{
  "pool_id": "pool-1",
  "gpus": [
    {
      "id": 0,
      "total_vram_gb": 24,
      "available_vram_gb": 8,
      "workers": ["worker-abc"],
      "temperature_celsius": 65
    }
  ],
  "workers_total": 1,
  "uptime_seconds": 3600
}`
	const registration = `{
  "pool_id": "pool-1",
  "endpoint": "http://192.168.1.100:9200",
  "node_id": "gpu-node-1",
  "gpus": [
    {
      "id": 0,
      "model": "RTX 4090",
      "total_vram_gb": 24,
      "compute_capability": "8.9"
    }
  ],
  "region": "EU",
  "version": "0.1.0"
}`
	w.run(t, []example{
		{"no token", "", "POST", "/v2/pools/register", registration, 401, "*"},
		{"token of another pool", "gpu", "POST", "/v2/pools/register", registration, 403, "*"},
		{"heartbeat of an unknown pool", "pool", "POST", "/v2/pools/pool-1/heartbeat", heartbeat, 404, "*"},
		{"registered", "pool", "POST", "/v2/pools/register", registration, 200,
			`{"pool_id":"pool-1","status":"registered","heartbeat_interval_ms":10000}`},
		{"wrong type", "pool", "POST", "/v2/pools/register", `{"pool_id":7}`, 400,
			`{"error":"invalid_request","message":"pool_id: want a string, not number"}`},
		{"two ids", "pool", "POST", "/v2/pools/pool-1/heartbeat", `{"pool_id":"pool-2"}`, 400, `{"error":"invalid_request","message":"pool_id is \"pool-2\" in the body and \"pool-1\" in the path"}`},
		{"heartbeat", "pool", "POST", "/v2/pools/pool-1/heartbeat", heartbeat, 200,
			`{"status":"healthy","next_heartbeat_ms":10000}`},
		{"room", "viewer", "GET", "/v2/pools?min_available_vram_gb=8&gpu_model=RTX%204090&region=EU", "", 200, "*"},
		{"not enough memory", "viewer", "GET", "/v2/pools?min_available_vram_gb=9", "", 200, `{"pools":[],"total":0}`},
		{"bad query", "viewer", "GET", "/v2/pools?min_available_vram_gb=lots", "", 400, "*"},
		{"leave", "pool", "POST", "/v2/pools/pool-1/deregister", `{
  "pool_id": "pool-1",
  "reason": "graceful_shutdown"
}`, 200, `{"pool_id":"pool-1","status":"deregistered"}`},
		{"deregister again", "pool", "POST", "/v2/pools/pool-1/deregister", ``, 200, "*"},
		{"deregistered pool in placement", "viewer", "GET", "/v2/pools?min_available_vram_gb=1", "", 200, `{"pools":[],"total":0}`},
		{"heartbeat after deregistration", "pool", "POST", "/v2/pools/pool-1/heartbeat", heartbeat, 404, "*"},
		{"register again", "pool", "POST", "/v2/pools/register", registration, 200, "*"},
		{"a provider", "operator", "POST", "/v2/platform/providers/register", `{"provider_id":"p-1","endpoint":"https://p","auth_token":"hidden","pricing":{"per_token":0.1,"per_hour":2,"currency":"EUR"},
			"capacity":{"total_gpus":8,"total_vram_gb":192,"gpu_models":["RTX 4090"]},"sla":{"uptime_guarantee":99.9,"max_latency_ms":50},"geo":{"country":"DE","region":"EU"}}`, 200,
			`{"provider_id":"p-1","status":"registered","platform_margin_percent":12.5}`},
	})
}

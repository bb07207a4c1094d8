package poolapi_test

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
	"github.com/holdfast-metal/holdfast/server/poolapi"
)

func lab(t testing.TB) *apitest.Lab {
	return apitest.New(t, func(m *auth.Mux, rpc grpc.ClientConnInterface, s *server.Server) {
		poolapi.Register(m, rpc, s.Heartbeats())
	})
}

const (
	register   = "/v2/pools/register"
	heartbeat  = "/v2/pools/pool-1/heartbeat"
	deregister = "/v2/pools/pool-1/deregister"
	providers  = "/v2/platform/providers/register"

	pool          = `{"pool_id":"pool-1","endpoint":"http://192.168.1.100:9200","node_id":"gpu-node-1","gpus":[{"id":0,"model":"RTX 4090","total_vram_gb":24,"compute_capability":"8.9"}],"region":"EU","version":"0.1.0"}`
	heartbeatBody = `{"pool_id":"pool-1","gpus":[{"id":0,"total_vram_gb":24,"available_vram_gb":8,"workers":["worker-abc"],"temperature_celsius":65}],"workers_total":1,"uptime_seconds":3600}`

	provider = `{"provider_id":"p-1","endpoint":"https://p","auth_token":"hidden","pricing":{"per_token":0.1,"per_hour":2,"currency":"EUR"},` +
		`"capacity":{"total_gpus":8,"total_vram_gb":192,"gpu_models":["RTX 4090"]},"sla":{"uptime_guarantee":99.9,"max_latency_ms":50},"geo":{"country":"DE","region":"EU"}}`

	unknownPool = `{"error":"pool_not_found","message":"pool \"pool-1\" not found"}`
)

func TestTokens(t *testing.T) {
	l := lab(t)
	var calls []apitest.Call
	for _, r := range []struct{ name, method, path, body string }{
		{"register", "POST", register, pool}, {"heartbeat", "POST", heartbeat, heartbeatBody},
		{"deregister", "POST", deregister, ""},
		{"provider", "POST", providers, provider}, {"list", "GET", "/v2/pools", ""}, {"get", "GET", "/v2/pools/gpu", ""},
	} {
		for tok, message := range map[string]string{
			"": "no credentials: send `Authorization: Bearer` and a token (`holdfast token create`), or " +
				"use a client certificate",
			"=Bearer garbage": "unknown token: is it of this cluster, and complete? An admin creates one with `holdfast " +
				"token create`",
			"expired": `token \"tok-expired\" has expired at 2026-01-30T15:10:00Z: ask for another one`,
			"revoked": `token \"tok-revoked\" was revoked: ask for another one`,
		} {
			calls = append(calls, apitest.Expect(r.name+" with "+tok, tok, r.method, r.path, r.body, 401,
				`{"error":"unauthorized","message":"`+message+`"}`))
		}
		calls = append(calls, apitest.Expect(r.name+" of a machine's agent", "agent", r.method, r.path, r.body, 403, "*"))
	}
	l.Run(t, append(calls,
		apitest.Expect("another pool", "gpu", "POST", register, pool, 403, "*"),
		apitest.Expect("another pool's heartbeat", "gpu", "POST", heartbeat, heartbeatBody, 403, `{"error":"forbidden","message":"pool \"gpu\" (pool-agent) may heartbeat pools for itself only"}`),
		apitest.Expect("a viewer registers", "viewer", "POST", register, pool, 403, "*"),
		apitest.Expect("a viewer's provider", "viewer", "POST", providers, provider, 403, "*"),
		apitest.Expect("a pool's manager lists", "pool", "GET", "/v2/pools", "", 403, "*"),
		apitest.Expect("viewer of another pool", "elsewhere", "GET", "/v2/pools/gpu", "", 404,
			`{"error":"pool_not_found","message":"pool \"gpu\" not found"}`),
		apitest.Expect("viewer of another pool lists", "elsewhere", "GET", "/v2/pools", "", 200, `{"pools":[],"total":0}`),
	))
}

func TestBodies(t *testing.T) {
	l := lab(t)
	var calls []apitest.Call
	for _, r := range []struct{ token, path string }{{"pool", register}, {"pool", heartbeat}, {"pool", deregister},
		{"operator", providers}} {
		post := func(name, body string, status int, want string) {
			calls = append(calls, apitest.Expect(name+" to "+r.path, r.token, "POST", r.path, body, status, want))
		}
		post("torn", `{"pool_id":`, 400,
			`{"error":"invalid_request","message":"body is not JSON: unexpected end of JSON input"}`)
		post("no JSON", `pool-1`, 400, `{"error":"invalid_request","message":"body is not JSON: invalid character 'p' looking for beginning of value"}`)
		post("a list", `[]`, 400, `{"error":"invalid_request","message":"body: want an object, not array"}`)
		post("much", `{"x":"`+strings.Repeat("x", 1<<20)+`"}`, 413,
			`{"error":"payload_too_large","message":"body has more than 1048576 bytes"}`)
	}
	post := func(name, path, body string, status int, want string) {
		calls = append(calls, apitest.Expect(name, "pool", "POST", path, body, status, want))
	}
	post("nothing to register", register, "", 400, "*")
	post("wrong type", register, `{"pool_id":7}`, 400,
		`{"error":"invalid_request","message":"pool_id: want a string, not number"}`)
	post("wrong type within a list", register, `{"pool_id":"pool-1","gpus":[{"id":"zero"}]}`, 400,
		`{"error":"invalid_request","message":"gpus.id: want a whole number, not string"}`)
	post("too large a number", heartbeat, `{"workers_total":3000000000}`, 400,
		`{"error":"invalid_request","message":"workers_total: want a whole number, not number 3000000000"}`)
	post("no id", register, `{}`, 400, `{"error":"invalid_request","message":"pool_id: is required"}`)
	for name, body := range map[string]string{
		"gpus[0]":                   `{"gpus":[{"id":0,"total_vram_gb":-24}]}`,
		"gpus[0].available_vram_gb": `{"gpus":[{"id":0,"total_vram_gb":24,"available_vram_gb":25}]}`,
		"workers_busy":              `{"workers_total":1,"workers_busy":-1}`,
		"workers_total":             `{"workers_total":1,"workers_ready":1,"workers_busy":1}`,
		"uptime_seconds":            `{"uptime_seconds":-1}`,
	} {
		calls = append(calls, apitest.Expect("impossible "+name, "pool", "POST", heartbeat, body, 400, "*"))
	}
	post("negative VRAM", register, `{"pool_id":"pool-1","gpus":[{"id":0,"total_vram_gb":-1}]}`, 400, "*")
	post("a value with the name of a field", register, `{"pool_id":"pool-1","endpoint":"provider.region"}`, 400,
		`{"error":"invalid_request","message":"endpoint: \"provider.region\" is not a URL such as http://10.0.0.7:9200"}`)
	post("an odd spelling of an address", register, `{"pool_id":"pool-1","endpoint":"http://0x7f000001:9200"}`, 400,
		`{"error":"invalid_request","message":"endpoint: \"http://0x7f000001:9200\" is not a URL such as http://10.0.0.7:9200"}`)
	post("two GPUs with an id", register, `{"pool_id":"pool-1","endpoint":"http://10.0.0.7:9200","gpus":[{"id":0},{"id":0}]}`,
		400, `{"error":"invalid_request","message":"gpus[1].id: 0 is the id of another GPU of the pool too"}`)
	post("two ids in a heartbeat", heartbeat, `{"pool_id":"pool-2"}`, 400, `{"error":"invalid_request","message":"pool_id is \"pool-2\" in the body and \"pool-1\" in the path"}`)
	post("two ids in a deregistration", deregister, `{"pool_id":"pool-2"}`, 400, `{"error":"invalid_request","message":"pool_id is \"pool-2\" in the body and \"pool-1\" in the path"}`)
	post("a path that is no UTF-8", "/v2/pools/%ff/heartbeat", heartbeatBody, 400,
		`{"error":"invalid_request","message":"the path is not UTF-8"}`)
	calls = append(calls,
		apitest.Expect("a bad id", "admin", "POST", register, `{"pool_id":"a b"}`, 400, "*"),
		apitest.Expect("a price below nothing", "operator", "POST", providers,
			`{"provider_id":"x","endpoint":"https://gpu.example.com","pricing":{"per_hour":-1}}`, 400,
			`{"error":"invalid_request","message":"pricing.per_hour: -1 is not 0 to 1e+09"}`),
		apitest.Expect("a provider without an id", "operator", "POST", providers, `{}`, 400, "*"),
		apitest.Expect("VRAM that is no number", "viewer", "GET", "/v2/pools?min_available_vram_gb=lots", "", 400, `{"error":"invalid_request","message":"min_available_vram_gb is \"lots\": want a number of gigabytes"}`),
		apitest.Expect("VRAM below nothing", "viewer", "GET", "/v2/pools?min_available_vram_gb=-1", "", 400, "*"),
		apitest.Expect("VRAM that is not a number", "viewer", "GET", "/v2/pools?min_available_vram_gb=NaN", "", 400, "*"),
		apitest.Expect("invalid filter", "viewer", "GET", "/v2/pools?filter=%3D%3D", "", 400, "*"),
		apitest.Expect("no such route", "", "GET", "/v2/nothing", "", 404, `{"error":"not_found","message":"Not Found"}`),
		apitest.Expect("wrong method", "pool", "PUT", register, pool, 405,
			`{"error":"method_not_allowed","message":"Method Not Allowed"}`),
		apitest.Expect("delete", "pool", "DELETE", "/v2/pools/pool-1", "", 405,
			`{"error":"method_not_allowed","message":"Method Not Allowed"}`),
	)
	l.Run(t, calls)
}

func TestLife(t *testing.T) {
	l := lab(t)
	l.Run(t, []apitest.Call{
		apitest.Expect("heartbeat of an unknown pool", "pool", "POST", heartbeat, heartbeatBody, 404, unknownPool),
		apitest.Expect("deregistration of an unknown pool", "pool", "POST", deregister,
			`{"pool_id":"pool-1","reason":"graceful_shutdown"}`, 404, unknownPool),
		apitest.Expect("unknown pool", "viewer", "GET", "/v2/pools/pool-1", "", 404, unknownPool),
		apitest.Expect("register", "pool", "POST", register, pool, 200,
			`{"pool_id":"pool-1","status":"registered","heartbeat_interval_ms":10000}`),
		apitest.Expect("and again", "pool", "POST", register+"/", pool, 200,
			`{"pool_id":"pool-1","status":"registered","heartbeat_interval_ms":10000}`),
		apitest.Expect("heartbeat", "pool", "POST", heartbeat, heartbeatBody, 200, `{"status":"healthy","next_heartbeat_ms":10000}`),
		apitest.Expect("heartbeat without an id in its body", "pool", "POST", heartbeat+"/",
			strings.Replace(heartbeatBody, `"pool_id":"pool-1",`, "", 1), 200, `{"status":"healthy","next_heartbeat_ms":10000}`),
		apitest.Expect("get", "viewer", "GET", "/v2/pools/pool-1", "", 200,
			`{"pool_id":"pool-1","endpoint":"http://192.168.1.100:9200","node_id":"gpu-node-1",`+
				`"gpus":[{"id":0,"model":"RTX 4090","total_vram_gb":24,"available_vram_gb":8,"compute_capability":"8.9","workers":["worker-abc"],"temperature_celsius":65}],`+
				`"region":"EU","version":"0.1.0","workers_total":1,"workers_ready":0,"workers_busy":0,"uptime_seconds":3600,"status":"healthy","declared":false,`+
				`"available_vram_gb":8,"machines":0,"machines_ready":0,"registered_at":"2026-01-29T15:10:03Z","last_heartbeat":"2026-01-29T15:10:05Z"}`),
		apitest.Expect("room", "viewer", "GET", "/v2/pools?min_available_vram_gb=8&gpu_model=rtx%204090&region=eu", "", 200,
			"*"),
		apitest.Expect("no room", "viewer", "GET", "/v2/pools?min_available_vram_gb=8.5", "", 200, `{"pools":[],"total":0}`),
		apitest.Expect("no such model", "viewer", "GET", "/v2/pools?gpu_model=H100", "", 200, `{"pools":[],"total":0}`),
		apitest.Expect("provider", "operator", "POST", providers, provider, 200,
			`{"provider_id":"p-1","status":"registered","platform_margin_percent":12.5}`),
	})
	if p, ok := l.State().Provider("p-1"); !ok || len(p.GetAuthTokenSha256()) != 32 ||
		strings.Contains(p.String(), "hidden") {
		t.Errorf("recorded provider: got %v, want only the hash of its token", p)
	}
	l.Expire(internalv1.LeaseRef_POOL, "pool-1")
	l.Run(t, []apitest.Call{
		apitest.Expect("out of placement", "viewer", "GET", "/v2/pools?min_available_vram_gb=1", "", 200,
			`{"pools":[],"total":0}`),
		apitest.Expect("still listed", "viewer", "GET", "/v2/pools?filter=status%20%3D%20UNAVAILABLE", "", 200, "*"),
	})
	if p, _ := l.State().Pool("pool-1"); p.GetStatus() != holdfastv1.Pool_UNAVAILABLE {
		t.Errorf("pool after missed heartbeats: got %v", p.GetStatus())
	}
	l.Run(t, []apitest.Call{
		apitest.Expect("register after that", "pool", "POST", register, pool, 200, "*"),
		apitest.Expect("leave", "pool", "POST", deregister, `{"pool_id":"pool-1","reason":"graceful_shutdown"}`, 200,
			`{"pool_id":"pool-1","status":"deregistered"}`),
		apitest.Expect("leave again, without a body", "pool", "POST", deregister, ``, 200,
			`{"pool_id":"pool-1","status":"deregistered"}`),
		apitest.Expect("heartbeat after that", "pool", "POST", heartbeat, heartbeatBody, 404, unknownPool),
	})
}

func TestNoLeader(t *testing.T) {
	l := lab(t)
	l.Run(t, []apitest.Call{apitest.Expect("register", "pool", "POST", register, pool, 200, "*")})
	l.LoseLeader(true)
	const want = `{"error":"unavailable","message":"no leader"}`
	l.Run(t, []apitest.Call{
		apitest.Expect("register again", "pool", "POST", register, pool, 503, want),
		apitest.Expect("heartbeat", "pool", "POST", heartbeat, heartbeatBody, 503, want),
		apitest.Expect("deregister", "pool", "POST", deregister, "", 503, want),
		apitest.Expect("list", "viewer", "GET", "/v2/pools", "", 503, want),
		apitest.Expect("get", "viewer", "GET", "/v2/pools/pool-1", "", 503, want),
		apitest.Expect("provider", "operator", "POST", providers, provider, 503, want),
	})
}

// FuzzBodies sends arbitrary bodies. The response is a known status with JSON, and a
// refused request changes nothing.
func FuzzBodies(f *testing.F) {
	paths := []string{register, heartbeat, deregister, providers}
	for i := range paths {
		for _, body := range []string{pool, heartbeatBody, provider, `[]`, `null`, "\xff", `{"gpus":[{"workers":null}]}`,
			`{"pool_id":"pool-1","gpus":[{"total_vram_gb":1e308}]}`} {
			f.Add(byte(i), []byte(body))
		}
	}
	l := lab(f)
	f.Fuzz(func(t *testing.T, path byte, body []byte) {
		l.Fuzzed(t, apitest.Call{Token: "admin", Method: "POST", Path: paths[int(path)%len(paths)], Body: string(body)},
			200, 400, 404, 413)
	})
}

// TestListOfOddNumbers checks that stored numbers that JSON cannot represent do not break the list:
// they are left out, as numbers that were never reported.
func TestListOfOddNumbers(t *testing.T) {
	l := lab(t)
	l.Do(&internalv1.RegisterPool{TtlMs: 15_000, Pool: &holdfastv1.Pool{PoolId: "pool-1",
		Gpus: []*holdfastv1.Gpu{{Id: 7, TotalVramGb: proto.Float64(24), TemperatureCelsius: new(math.Inf(1))}}}})
	for _, path := range []string{"/v2/pools", "/v2/pools/pool-1"} {
		got := l.Send(apitest.Expect("", "viewer", "GET", path, "", 0, ""))
		if want := `"gpus":[{"id":7,"total_vram_gb":24,"workers":[]}]`; got.Status != 200 || !strings.Contains(got.Body, want) {
			t.Errorf("%s: got %d %s, want %s in it", path, got.Status, got.Body, want)
		}
	}
}

package machineapi_test

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
	"github.com/holdfast-metal/holdfast/server/machineapi"
)

func lab(t testing.TB) *apitest.Lab {
	return apitest.New(t, func(m *auth.Mux, rpc grpc.ClientConnInterface, s *server.Server) {
		machineapi.Register(m, rpc, s.Heartbeats(), slog.New(slog.DiscardHandler))
	})
}

const (
	register  = "/api/v1/machine/register"
	keepalive = "/api/v1/machine/keepalive"
	list      = "/api/v1/machine/list"

	machine       = `{"token":"","machine_id":"1165a9b6","hostname":"w-1","provider_name":"generic","pool_name":"gpu","cpu":"8000m","memory":"16Gi","gpu_count":"1","private_ip":"192.168.1.100"}`
	keepaliveBody = `{"machine_id":"1165a9b6","pool_name":"gpu","agent_version":"0.1.0"}`

	unauthorized = `{"message":"Unauthorized"}`
	invalidToken = `{"message":"Invalid token","error_code":"invalid_token"}`
	expired      = `{"message":"Machine state expired","error_code":"machine_not_found","suggestion":"Register the machine again: POST /api/v1/machine/register"}`
)

func with(body, old, replacement string) string { return strings.Replace(body, old, replacement, 1) }

// Requests with missing or wrong credentials get the specified errors and change nothing.
func TestTokens(t *testing.T) {
	l := lab(t)
	var calls []apitest.Call
	for _, route := range []struct{ name, method, path, body string }{
		{"register", "POST", register, machine}, {"keepalive", "POST", keepalive, keepaliveBody}, {"list", "GET", list,
			""}, {"config", "GET", "/api/v1/machine/config", ""},
	} {
		for _, tok := range []string{"", "expired", "revoked", "=Bearer garbage", "=Bearer", "=Bearer a b",
			"=Basic dXNlcjpwYXNz", "=Bearer " + strings.Repeat("x", 600)} {
			calls = append(calls, apitest.Call{Name: route.name + " with " + tok, Token: tok, Method: route.method,
				Path: route.path, Body: route.body, Status: 401, Want: unauthorized})
		}
		calls = append(calls, apitest.Call{Name: route.name + " of a service", Token: "service", Method: route.method,
			Path: route.path, Body: route.body, Status: 403, Want: invalidToken})
	}
	for _, tok := range []string{"viewer", "operator", "admin"} {
		calls = append(calls,
			apitest.Call{Name: "register of a " + tok, Token: tok, Method: "POST", Path: register, Body: machine, Status: 403,
				Want: invalidToken},
			apitest.Call{Name: "keepalive of a " + tok, Token: tok, Method: "POST", Path: keepalive, Body: keepaliveBody,
				Status: 403, Want: invalidToken},
			apitest.Call{Name: "list of a " + tok, Token: tok, Method: "GET", Path: list, Status: 200, Want: "[]"})
	}
	l.Run(t, append(calls,
		apitest.Call{Name: "another machine", Token: "agent", Method: "POST", Path: register,
			Body: with(machine, "1165a9b6", "2265a9b6"), Status: 403, Want: invalidToken},
		apitest.Call{Name: "another machine's keepalive", Token: "agent", Method: "POST", Path: keepalive,
			Body: with(keepaliveBody, "1165a9b6", "2265a9b6"), Status: 403, Want: invalidToken},
		apitest.Call{Name: "machine of another pool", Token: "pool", Method: "POST", Path: register, Body: machine,
			Status: 403, Want: invalidToken},
		apitest.Call{Name: "token without the prefix", Token: "=" + l.Secret("agent"), Method: "GET", Path: list,
			Status: 200, Want: "[]"},
		apitest.Call{Name: "prefix in lower case", Token: "=bearer " + l.Secret("agent"), Method: "GET", Path: list + "/",
			Status: 200, Want: "[]"},
	))
}

// TestEnroll: an enroll token creates a machine; after that, only the machine's own token
// is valid for it.
func TestEnroll(t *testing.T) {
	l := lab(t)
	enroller, own := l.NewToken(&holdfastv1.Token{Role: holdfastv1.Role_ENROLLER,
		Pools: []string{"gpu"}}), strings.Repeat("s", 86)
	sum := sha256.Sum256([]byte(own))
	plain, stolen := with(machine, "1165a9b6", "2265a9b6"), with(machine, "1165a9b6", "3365a9b6")
	enrolls := with(plain, `"token":""`, fmt.Sprintf(`"token_sha256":"%x"`, sum))
	foreign := with(plain, `"token":""`, fmt.Sprintf(`"token_sha256":"%x"`, sha256.Sum256([]byte("foreign"))))
	keepaliveBody := with(keepaliveBody, "1165a9b6", "2265a9b6")
	call := func(name, token, path, body string, status int, want string) {
		t.Helper()
		l.Run(t, []apitest.Call{{Name: name, Token: token, Method: "POST", Path: path, Body: body, Status: status,
			Want: want}})
	}
	call("without a token of its own", "="+enroller, register, plain, 403, invalidToken)
	call("malformed", "="+enroller, register, with(plain, `"token":""`, `"token_sha256":"abc"`), 403, invalidToken)
	call("enrolled", "="+enroller, register, enrolls, 200, "*")
	m, _ := l.State().Machine("2265a9b6")
	id := m.GetAgent().GetTokenId()
	if id == "" {
		t.Fatalf("got machine %v, want it enrolled", m)
	}
	call("again", "="+enroller, register, enrolls, 200,
		`{"config":null,"machine_state":{"machine_id":"2265a9b6","status":"registered","pool_name":"gpu","ttl_seconds":300,"token_id":"`+id+`"}}`)
	call("by another machine", "="+enroller, register, foreign, 403, "*")
	call("keepalive of the enroller", "="+enroller, keepalive, keepaliveBody, 403, invalidToken)
	call("keepalive of the pool", "gpu", keepalive, keepaliveBody, 403, "*")
	call("registration of the pool", "gpu", register, plain, 403, "*")
	call("own keepalive", "="+own, keepalive, keepaliveBody, 200, "*")
	call("own registration", "="+own, register, plain, 200, `{"config":null,"machine_state":{"machine_id":"2265a9b6","status":"registered","pool_name":"gpu","ttl_seconds":300}}`)
	call("own token, another machine", "="+own, register, stolen, 403, invalidToken)
	call("pool token, a machine that is not enrolled", "gpu", register, stolen, 200, "*")
}

// Invalid registrations and keepalives.
func TestBodies(t *testing.T) {
	l := lab(t)
	post := func(name, path, body string, status int, want string) apitest.Call {
		return apitest.Call{Name: name, Token: "agent", Method: "POST", Path: path, Body: body, Status: status, Want: want}
	}
	huge := `{"x":"` + strings.Repeat("x", 1<<20) + `"}`
	calls := []apitest.Call{
		post("bad cpu", register, with(machine, "8000m", "eight"), 500, `{"message":"Invalid machine cpu value"}`),
		post("negative cpu", register, with(machine, "8000m", "-8"), 500, `{"message":"Invalid machine cpu value"}`),
		post("cpu beyond counting", register, with(machine, "8000m", "9223372036854775808m"), 500,
			`{"message":"Invalid machine cpu value"}`),
		post("bad memory", register, with(machine, "16Gi", "16Qi"), 500, `{"message":"Invalid machine memory value"}`),
		post("memory in two units", register, with(machine, "16Gi", "16GiMi"), 500,
			`{"message":"Invalid machine memory value"}`),
		post("bad gpu count", register, with(machine, `"gpu_count":"1"`, `"gpu_count":"-1"`), 500,
			`{"message":"Invalid gpu count"}`),
		post("gpu count with a fraction", register, with(machine, `"gpu_count":"1"`, `"gpu_count":1.5`), 500,
			`{"message":"Invalid gpu count"}`),
		post("keepalive without a pool", keepalive, `{"machine_id":"1165a9b6"}`, 400,
			`{"message":"machine_id and pool_name are required","suggestion":"missing or empty: pool_name"}`),
		post("keepalive with nulls", keepalive, `{"machine_id":null,"pool_name":null,"metrics":null}`, 400,
			`{"message":"machine_id and pool_name are required","suggestion":"missing or empty: machine_id, pool_name"}`),
		post("metrics that are no object", keepalive, with(keepaliveBody, `}`, `,"metrics":7}`), 200, "*"),
		post("metric that is no number", keepalive, with(keepaliveBody, `}`, `,"metrics":{"cpu_utilization_pct":"high"}}`), 200, "*"),
		post("metric beyond numbers", keepalive, with(keepaliveBody, `}`, `,"metrics":{"cpu_utilization_pct":"NaN"}}`), 200, "*"),
		post("member of a wrong type", register, with(machine, `"1165a9b6"`, `{}`), 400,
			`{"message":"Invalid payload","suggestion":"machine_id: want a string, not object"}`),
		post("list in place of a number", keepalive, with(keepaliveBody, `}`, `,"metrics":{"free_gpu_count":[]}}`), 200,
			"*"),
		post("truth in place of a text", register, with(machine, `"8000m"`, `true`), 400,
			`{"message":"Invalid payload","suggestion":"cpu: want a string, not bool"}`),
		post("token of a wrong type", register, with(machine, `"token":""`, `"token":[7]`), 200, "*"), // ignored
	}
	for _, path := range []string{register, keepalive} {
		calls = append(calls,
			post("nothing to "+path, path, "", 400,
				`{"message":"Invalid payload","suggestion":"body is not JSON: unexpected end of JSON input"}`),
			post("torn to "+path, path, `{"machine_id":`, 400,
				`{"message":"Invalid payload","suggestion":"body is not JSON: unexpected end of JSON input"}`),
			post("two objects to "+path, path, `{}{}`, 400, `{"message":"Invalid payload","suggestion":"body is not JSON: invalid character '{' after top-level value"}`),
			post("a list to "+path, path, `[]`, 400,
				`{"message":"Invalid payload","suggestion":"body: want an object, not array"}`),
			post("much to "+path, path, huge, 413, `{"message":"Payload too large"}`),
		)
	}
	for _, member := range []string{"machine_id", "hostname", "pool_name", "cpu", "memory", "gpu_count", "private_ip"} {
		calls = append(calls,
			post("no "+member, register, with(machine, `"`+member+`"`, `"x"`), 400,
				`{"message":"Invalid payload","suggestion":"missing or empty: `+member+`"}`),
			post("empty "+member, register, with(machine, `"`+member+`":"`, `"`+member+`":" ","x":"`), 400,
				`{"message":"Invalid payload","suggestion":"missing or empty: `+member+`"}`))
	}
	l.Run(t, calls)
}

// An id that is not one of a URL's path is refused, and not changed into another one.
func TestIDs(t *testing.T) {
	l := lab(t)
	var calls []apitest.Call
	for _, id := range []string{".", "..", "-", ":", " 2265a9b6", `2265a9b6\n`, "2265a9b6/", "a b", `\u0000`, "é",
		strings.Repeat("x", 65)} {
		calls = append(calls, apitest.Expect("register "+id, "gpu", "POST", register, with(machine, "1165a9b6", id), 400,
			"*"))
	}
	l.Run(t, append(calls,
		apitest.Expect("register", "gpu", "POST", register, with(machine, "1165a9b6", "2265a9b6"), 200, "*"),
		apitest.Expect("in capitals", "gpu", "POST", register, with(machine, "1165a9b6", "2265A9B6"), 500, "*"),
		apitest.Expect("pool with a line break", "gpu", "POST", register, with(machine, `"gpu"`, `"gpu\n"`), 500, "*"),
	))
}

// The life of a machine, with each response byte for byte.
func TestLife(t *testing.T) {
	l := lab(t)
	registered := `{"config":null,"machine_state":{"machine_id":"1165a9b6","status":"registered","pool_name":"gpu","ttl_seconds":300}}`
	l.Run(t, []apitest.Call{
		apitest.Expect("unknown pool", "agent", "POST", register, with(machine, `"gpu"`, `"cpu"`), 500,
			`{"message":"Invalid pool name"}`),
		apitest.Expect("unknown machine", "gpu", "POST", keepalive, with(keepaliveBody, "1165a9b6", "9965a9b6"), 500,
			expired),
		apitest.Expect("register", "agent", "POST", register, machine, 200, registered),
		apitest.Expect("registered is not ready", "gpu", "GET", list, "", 200, `[]`),
		apitest.Expect("ready", "agent", "POST", keepalive, keepaliveBody, 200, `{"status":"ok","machine_state":{"machine_id":"1165a9b6","status":"ready","pool_name":"gpu","last_keepalive":"1769699403","ttl_seconds":300,`+
			`"agent_version":"0.1.0"},"next_keepalive_ms":10000}`),
		apitest.Expect("list", "agent", "GET", list, "", 200, `[{"state":{"machine_id":"1165a9b6","pool_name":"gpu","provider_name":"generic","status":"ready","hostname":"w-1","cpu":8000,"memory":16384,`+
			`"gpu":"","gpu_count":1,"private_ip":"192.168.1.100","created":"1769699400","last_keepalive":"1769699403","agent_version":"0.1.0"},"metrics":null}]`),
		apitest.Expect("metrics and an unknown field", "agent", "POST", keepalive+"/",
			with(keepaliveBody, "}", `,"x":{"y":[1]},"metrics":{"cpu_utilization_pct":15.5,"memory_utilization_pct":"42.3",`+
				`"total_cpu_available":8000,"total_memory_available":17179869184,"free_gpu_count":1}}`), 200, "*"),
		apitest.Expect("list with metrics", "viewer", "GET", list+"?pool_name=gpu&provider_name=generic", "", 200, `[{"state":{"machine_id":"1165a9b6","pool_name":"gpu","provider_name":"generic","status":"ready","hostname":"w-1",`+
			`"cpu":8000,"memory":16384,"gpu":"","gpu_count":1,"private_ip":"192.168.1.100","created":"1769699400","last_keepalive":"1769699404","agent_version":"0.1.0"},`+
			`"metrics":{"cpu_utilization_pct":15.5,"memory_utilization_pct":42.3,"total_cpu_available":8000,"total_memory_available":16384,"free_gpu_count":1}}]`),
		apitest.Expect("other pool", "viewer", "GET", list+"?pool_name=cpu", "", 200, `[]`),
		apitest.Expect("other provider", "viewer", "GET", list+"?provider_name=lambda", "", 200, `[]`),
		apitest.Expect("list by another pool", "elsewhere", "GET", list, "", 200, `[]`),
		apitest.Expect("config", "agent", "GET", "/api/v1/machine/config", "", 200, `{"config":null}`),
		apitest.Expect("registered again", "agent", "POST", register+"/", machine, 200, registered),
		apitest.Expect("not ready any more", "viewer", "GET", list, "", 200, `[]`),
		apitest.Expect("numbers for texts, a machine of the pool", "gpu", "POST", register, `{"machine_id":"2265a9b6","hostname":"h","pool_name":"gpu","cpu":8,"memory":2048,"gpu_count":0,"private_ip":"10.0.0.1"}`, 200,
			`{"config":null,"machine_state":{"machine_id":"2265a9b6","status":"registered","pool_name":"gpu","ttl_seconds":300}}`),
		apitest.Expect("no such route", "", "GET", "/api/v1/machine/nothing", "", 404, `{"message":"Not Found"}`),
		apitest.Expect("wrong method", "agent", "GET", register, "", 405, `{"message":"Method Not Allowed"}`),
		apitest.Expect("wrong method to list", "agent", "POST", list, "{}", 405, `{"message":"Method Not Allowed"}`),
	})
	m, _ := l.State().Machine("2265a9b6")
	if g := m.GetAgent(); g.GetCpuMillicores() != 8 || g.GetMemoryMib() != 2048 || g.GetProviderName() != "generic" {
		t.Errorf("machine with numbers: got %v", g)
	}
	l.Expire(internalv1.LeaseRef_MACHINE, "1165a9b6")
	l.Run(t, []apitest.Call{
		apitest.Expect("expired", "agent", "POST", keepalive, keepaliveBody, 500, expired),
		apitest.Expect("register after that", "agent", "POST", register, machine, 200, registered),
		apitest.Expect("alive after that", "agent", "POST", keepalive, keepaliveBody, 200, "*"),
	})
	if m, _ := l.State().Machine("1165a9b6"); m.GetStatus().GetAgentState() != holdfastv1.Agent_READY {
		t.Errorf("state after the return: got %v", m.GetStatus().GetAgentState())
	}
}

// Without a leader, the response is a 503 with Retry-After.
func TestNoLeader(t *testing.T) {
	l := lab(t)
	l.Run(t, []apitest.Call{apitest.Expect("register", "agent", "POST", register, machine, 200, "*")})
	l.LoseLeader(true)
	const want = `{"message":"The cluster has no leader at the moment: try again","suggestion":"Repeat the request after a second. An operator finds the cause with holdfast cluster status"}`
	l.Run(t, []apitest.Call{
		apitest.Expect("register again", "agent", "POST", register, machine, 503, want),
		apitest.Expect("keepalive", "agent", "POST", keepalive, keepaliveBody, 503, want),
		apitest.Expect("list", "agent", "GET", list, "", 503, want),
	})
}

// FuzzBodies sends arbitrary bodies as an agent. The response is a known status with JSON,
// and a refused request changes nothing.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{machine, keepaliveBody, `{"machine_id":1165,"metrics":{"free_gpu_count":"1e3"}}`, `[]`, `null`,
		"\xff", `{"cpu":"9999999999999999m"}`} {
		f.Add(true, []byte(body))
		f.Add(false, []byte(body))
	}
	l := lab(f)
	f.Fuzz(func(t *testing.T, toRegister bool, body []byte) {
		path := keepalive
		if toRegister {
			path = register
		}
		l.Fuzzed(t, apitest.Call{Token: "agent", Method: "POST", Path: path, Body: string(body)}, 200, 400, 403, 413, 500)
	})
}

// TestListOfOddNumbers: stored numbers that JSON cannot represent do not break the list.
func TestListOfOddNumbers(t *testing.T) {
	l := lab(t)
	l.Run(t, []apitest.Call{apitest.Expect("register", "agent", "POST", register, machine, 200, "*")})
	lease, _ := l.State().Lease(internalv1.LeaseRef_MACHINE, "1165a9b6")
	odd := &holdfastv1.AgentMetrics{CpuUtilizationPct: math.NaN(), MemoryUtilizationPct: math.Inf(1), FreeGpuCount: 1}
	l.Do(&internalv1.CheckpointLeases{ClockMs: 1000,
		Leases: []*internalv1.SeenLease{{SeenMs: 1000, Renewal: &internalv1.Renewal{Lease: lease.GetRef(), Metrics: odd}}}})
	got := l.Send(apitest.Expect("", "viewer", "GET", list, "", 0, ""))
	if want := `"metrics":{"cpu_utilization_pct":0,"memory_utilization_pct":0,"total_cpu_available":0,"total_memory_available":0,"free_gpu_count":1}`; got.Status != 200 || !strings.Contains(got.Body, want) {
		t.Errorf("got %d %s, want %s in it", got.Status, got.Body, want)
	}
}

// Schedulers place work on every machine of the list.
func TestListOffersOnlyWhatMayWork(t *testing.T) {
	l := lab(t)
	l.Run(t, []apitest.Call{
		apitest.Expect("register", "agent", "POST", register, machine, 200, "*"),
		apitest.Expect("keepalive", "agent", "POST", keepalive, keepaliveBody, 200, "*"),
	})
	for _, tt := range []struct {
		phase   holdfastv1.MachineStatus_Phase
		offered bool
	}{
		{holdfastv1.MachineStatus_READY, true},
		{holdfastv1.MachineStatus_MAINTENANCE, false},
		{holdfastv1.MachineStatus_IN_SERVICE, true},
		{holdfastv1.MachineStatus_RMA, false},
		{holdfastv1.MachineStatus_RETIRED, false},
	} {
		l.Do(&internalv1.SetMachinePhase{MachineId: "1165a9b6", Phase: tt.phase})
		got := l.Send(apitest.Call{Token: "agent", Method: "GET", Path: list})
		if offered := strings.Contains(got.Body, "1165a9b6"); got.Status != 200 || offered != tt.offered {
			t.Errorf("%s: got %d %s, want it offered: %v", tt.phase, got.Status, got.Body, tt.offered)
		}
	}
	if m, _ := l.State().Machine("1165a9b6"); m.GetStatus().GetAgentState() != holdfastv1.Agent_EXPIRED {
		t.Errorf("agent of a retired machine: got %s, want EXPIRED", m.GetStatus().GetAgentState())
	}
}

func TestImpossibleMetrics(t *testing.T) {
	l := lab(t)
	l.Run(t, []apitest.Call{apitest.Expect("register", "agent", "POST", register, machine, 200, "*")})
	for metrics, note := range map[string]string{
		`{"cpu_utilization_pct":-5}`:                     "cpu_utilization_pct is not 0 to 100",
		`{"memory_utilization_pct":4200}`:                "memory_utilization_pct is not 0 to 100",
		`{"total_cpu_available":-3}`:                     "total_cpu_available is not",
		`{"total_memory_available":-7}`:                  "total_memory_available is not",
		`{"free_gpu_count":8589934592}`:                  "free_gpu_count is not",
		`{"cpu_utilization_pct":1e300}`:                  "cpu_utilization_pct is not 0 to 100",
		`{"cpu_utilization_pct":1e999}`:                  "cpu_utilization_pct is not 0 to 100",
		`{"total_memory_available":9223372036854775807}`: "total_memory_available is not",
		`{"cpu_utilization_pct":"n/a"}`:                  "cpu_utilization_pct is not a number",
		`{"cpu_utilization_pct":true}`:                   "cpu_utilization_pct is not a number",
		`[]`:                                             "",
		`{"cpu_utilization_pct":"50.5"}`:                 "",
	} {
		body := strings.TrimSuffix(keepaliveBody, "}") + `,"metrics":` + metrics + "}"
		got := l.Send(apitest.Call{Token: "agent", Method: "POST", Path: keepalive, Body: body})
		if got.Status != 200 || !strings.Contains(got.Body, note) || (note == "") == strings.Contains(got.Body, `"note"`) {
			t.Errorf("%s: got %d %s, want 200 with the note %q", metrics, got.Status, got.Body, note)
		}
	}
}

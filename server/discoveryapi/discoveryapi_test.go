package discoveryapi_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/discoveryapi"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
)

func lab(t testing.TB) *apitest.Lab {
	return apitest.New(t, func(m *auth.Mux, rpc grpc.ClientConnInterface, s *server.Server) {
		discoveryapi.Register(m, rpc, s.Heartbeats(), s)
	})
}

const (
	base          = "/api/v1/management/discovery"
	register      = base + "/register"
	deregister    = base + "/deregister"
	ping          = base + "/ping"
	notifications = "/api/v1/capabilities/notifications"

	id    = "550e8400-e29b-41d4-a716-446655440000"
	never = "00000000-0000-4000-8000-000000000000"

	tool = `{"id":"` + id + `","serviceName":"my-tool","host":"192.168.1.100","port":9090,"serviceType":"tool-invoker","serviceSubType":"jvm","languageName":"Java",` +
		`"languageType":"compiled","languageSubType":"jvm"}`
	healthy = `{"timestamp":"2025-01-15T10:30:00Z","healthy":true,"reason":"healthy"}`
)

func wrong(message string) string { return `{"error":{"message":"` + message + `"},"data":null}` }

func unknown(id string) string { return wrong(`service \"` + id + `\" was never registered`) }

func TestTokens(t *testing.T) {
	l := lab(t)
	var calls []apitest.Call
	for _, r := range []struct{ method, path, body string }{
		{"POST", register, tool}, {"POST", deregister, tool}, {"POST", base + "/update/" + id, healthy}, {"POST", ping, id},
		{"GET", "/api/v1/capabilities", ""}, {"GET", "/api/v1/capabilities/tools/state", ""}, {"GET",
			"/api/v1/capabilities/resources/state", ""}, {"GET", notifications, ""},
	} {
		expect := func(token string, status int, want string) {
			calls = append(calls, apitest.Expect(r.method+r.path+" with "+token, token, r.method, r.path, r.body, status, want))
		}
		expect("", 401, wrong("no credentials: send `Authorization: Bearer` and a token (`holdfast token create`), or "+
			"use a client certificate"))
		expect("expired", 401, wrong(`token \"tok-expired\" has expired at 2026-01-30T15:10:00Z: ask for another one`))
		expect("revoked", 401, wrong(`token \"tok-revoked\" was revoked: ask for another one`))
		expect("=Bearer garbage", 401,
			wrong("unknown token: is it of this cluster, and complete? An admin creates one with `holdfast token create`"))
		expect("agent", 403, "*")
		expect("pool", 403, "*")
		if r.method == "POST" {
			expect("viewer", 403, "*")
		}
	}
	l.Run(t, calls)
}

func TestBodies(t *testing.T) {
	l := lab(t)
	l.Run(t, []apitest.Call{apitest.Expect("register", "service", "POST", register, tool, 200, "*")})
	var calls []apitest.Call
	send := func(name, path, body string, status int, want string) {
		calls = append(calls, apitest.Expect(name, "service", "POST", path, body, status, want))
	}
	huge := strings.Repeat("x", 1<<20+1)
	for _, path := range []string{register, deregister, base + "/update/" + id} {
		send("nothing to "+path, path, "", 400, wrong("body is not JSON: unexpected end of JSON input"))
		send("torn to "+path, path, "[", 400, wrong("body is not JSON: unexpected end of JSON input"))
		send("a list to "+path, path, "[]", 400, wrong("body: want an object, not array"))
		send("much to "+path, path, huge, 413, wrong("body has more than 1048576 bytes"))
	}
	send("much to ping", ping, huge, 413, wrong("body has more than 1048576 bytes"))
	send("ping of nothing", ping, " \n", 400, wrong("body is empty: want the id of a service"))
	send("ping of garbage", ping, "\xff\xfe", 400, "*")
	send("ping of too much", ping, id+strings.Repeat("0", 1000), 404, "*")
	send("port of a wrong type", register, strings.Replace(tool, "9090", `"ninety"`, 1), 400,
		wrong("port: want a whole number, not string"))
	send("port as text", register, strings.Replace(tool, "9090", `"9090"`, 1), 200, "*")
	send("id in upper case", base+"/update/"+strings.ToUpper(id), `{"timestamp":1736937000500,"healthy":true}`, 200, "")
	send("port beyond ports", register, strings.Replace(tool, "9090", `70000`, 1), 400, "*")
	send("no members", register, `{"port":1}`, 400,
		wrong("serviceName: is required; host: is required; serviceType: is required"))
	send("a value with the name of a field", register, strings.Replace(tool, "my-tool", `target.`+strings.Repeat("x", 300), 1),
		400, wrong("serviceName: must be one line of at most 255 bytes"))
	send("no name", register, `{"host":"h","port":1,"serviceType":"tool-invoker"}`, 400, "*")
	for _, lacks := range []struct{ member, field string }{{`"host":"192.168.1.100",`, "host"}, {`"port":9090,`, "port"},
		{`"serviceType":"tool-invoker",`, "service_type"}} {
		send("no "+lacks.field, register, strings.Replace(tool, lacks.member, "", 1), 400,
			wrong(lacks.member[1:strings.IndexByte(lacks.member[1:], '"')+1]+": is required"))
	}
	send("invalid id", register, strings.Replace(tool, id, `short`, 1), 400, "*")
	send("invalid timestamp", base+"/update/"+id, `{"timestamp":"noon","healthy":true}`, 400,
		wrong(`timestamp: want ISO 8601 or seconds, not \"noon\"`))
	send("timestamp out of range", base+"/update/"+id, `{"timestamp":1e300,"healthy":true}`, 400,
		wrong(`timestamp: want ISO 8601 or seconds, not 1e300`))
	// outside the years 1 to 9999: treated as absent
	for _, far := range []string{`253402300800`, `-62135596801`, `"0000-01-01T00:00:00Z"`, `"9999-12-31T23:59:59-12:00"`} {
		send("timestamp "+far, base+"/update/"+id, `{"timestamp":`+far+`,"healthy":true}`, 200, "")
	}
	send("update of an unknown tool", base+"/update/"+never, healthy, 404, unknown(never))
	send("update of a path without UTF-8", base+"/update/%ff", healthy, 400, wrong("the path is not UTF-8"))
	send("ping of an unknown tool", ping+"/", never, 404, "*")
	send("deregistration of an unknown tool", deregister, strings.Replace(tool, id, never, 1), 404, unknown(never))
	calls = append(calls,
		apitest.Expect("unknown route", "", "POST", "/api/v1/management/discovery/nothing", "", 404,
			`{"error":{"message":"Not Found"},"data":null}`),
		apitest.Expect("unknown route to read", "", "GET", "/api/v1/capabilities/nothing", "", 404,
			`{"error":{"message":"Not Found"},"data":null}`),
		apitest.Expect("wrong method", "service", "GET", register, "", 405,
			`{"error":{"message":"Method Not Allowed"},"data":null}`),
		apitest.Expect("wrong method to ping", "service", "PUT", ping, id, 405,
			`{"error":{"message":"Method Not Allowed"},"data":null}`))
	l.Run(t, calls)
}

func TestLife(t *testing.T) {
	l := lab(t)
	send := func(name, path, body string, status int, want string) apitest.Call {
		return apitest.Expect(name, "service", "POST", path, body, status, want)
	}
	get := func(name, path, want string) apitest.Call {
		return apitest.Expect(name, "viewer", "GET", path, "", 200, want)
	}
	registered := `{"error":null,"data":` + strings.Replace(tool, id, "<uuid>", 1) + `}`
	l.Run(t, []apitest.Call{
		get("no tools", "/api/v1/capabilities", `{"error":null,"data":[]}`),
		send("with an id", register, tool, 200, registered),
		send("and again", register+"/", tool, 200, registered),
		send("without one", register, `{"id":null,"serviceName":"other","host":"10.0.0.1","port":9091,"serviceType":"resource-provider","more":1}`, 200,
			`{"error":null,"data":{"id":"<uuid>","serviceName":"other","host":"10.0.0.1","port":9091,"serviceType":"resource-provider","serviceSubType":null,"languageName":null,"languageType":null,"languageSubType":null}}`),
		send("update", base+"/update/"+id, healthy, 200, ""),
		send("update in seconds", base+"/update/"+id+"/",
			`{"timestamp":1736937000.5,"healthy":false,"reason":"no database"}`, 200, ""),
		send("update without a time", base+"/update/"+id, `{"timestamp":null,"healthy":true,"reason":null}`, 200, ""),
		send("ping", ping, id, 200, ""),
		send("ping in quotes, with a slash", ping+"/", "\""+id+"\"\n", 200, ""),
		get("tools", "/api/v1/capabilities/tools/state", `{"error":null,"data":{"my-tool":[{"id":"<uuid>","lastSeen":"2026-01-29T15:10:08Z","active":true,"states":[`+
			`{"timestamp":"2025-01-15T10:30:00Z","healthy":true,"reason":"healthy"},{"timestamp":"2025-01-15T10:30:00.5Z","healthy":false,"reason":"no database"},`+
			`{"timestamp":"2026-01-29T15:10:06Z","healthy":true,"reason":""}]}]}}`),
		get("resources", "/api/v1/capabilities/resources/state/", `{"error":null,"data":{"other":[{"id":"<uuid>","lastSeen":"2026-01-29T15:10:03Z","active":true,"states":[]}]}}`),
		get("all", "/api/v1/capabilities", "*"),
		send("deregister", deregister, tool, 200, ""),
		send("deregister again", deregister, tool, 200, ""),
		send("ping after that", ping, id, 200, ""),
		get("no tool", "/api/v1/capabilities/tools/state", `{"error":null,"data":{}}`),
		send("come back", register, tool, 200, registered),
	})
	l.Expire(internalv1.LeaseRef_SERVICE, id)
	l.Run(t, []apitest.Call{get("missing in action", "/api/v1/capabilities/tools/state",
		`{"error":null,"data":{"my-tool":[`+
			`{"id":"<uuid>","lastSeen":"2026-01-29T15:10:11Z","active":false,"states":[`+
			`{"timestamp":"2025-01-15T10:30:00Z","healthy":true,"reason":"healthy"},{"timestamp":"2025-01-15T10:30:00.5Z","healthy":false,"reason":"no database"},`+
			`{"timestamp":"2026-01-29T15:10:06Z","healthy":true,"reason":""},{"timestamp":"2026-01-29T15:10:09Z","healthy":false,"reason":"deregistered"},`+
			`{"timestamp":"2026-01-29T15:10:12Z","healthy":false,"reason":"missing in action"}]}]}}`)})
}

func TestNoLeader(t *testing.T) {
	l := lab(t)
	l.Run(t, []apitest.Call{apitest.Expect("register", "service", "POST", register, tool, 200, "*")})
	l.LoseLeader(true)
	want := wrong("no leader")
	l.Run(t, []apitest.Call{
		apitest.Expect("register again", "service", "POST", register, tool, 503, want),
		apitest.Expect("deregister", "service", "POST", deregister, tool, 503, want),
		apitest.Expect("update", "service", "POST", base+"/update/"+id, healthy, 503, want),
		apitest.Expect("ping", "service", "POST", ping, id, 503, want),
		apitest.Expect("list", "viewer", "GET", "/api/v1/capabilities", "", 503, want),
		apitest.Expect("states", "viewer", "GET", "/api/v1/capabilities/tools/state", "", 503, want),
		apitest.Expect("notifications", "viewer", "GET", notifications, "", 503, want),
	})
}

// FuzzBodies sends arbitrary bodies as a service. The response is a known status with JSON,
// and a refused request changes nothing.
func FuzzBodies(f *testing.F) {
	paths := []string{register, deregister, base + "/update/" + id, ping}
	for i := range paths {
		for _, body := range []string{tool, healthy, id, `{"timestamp":-62135596800.999}`,
			`{"timestamp":"2025-01-15T10:30:00.123456789+0100"}`, `[]`, `null`, "\xff", `{"id":null,"port":1e3}`} {
			f.Add(byte(i), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, path byte, body []byte) {
		l := lab(t)
		l.Send(apitest.Call{Token: "service", Method: "POST", Path: register, Body: tool})
		got := l.Fuzzed(t, apitest.Call{Token: "service", Method: "POST", Path: paths[int(path)%len(paths)],
			Body: string(body)}, 200, 400, 404, 413)
		if got.Status == 200 {
			l.Fuzzed(t, apitest.Call{Token: "viewer", Method: "GET", Path: "/api/v1/capabilities/tools/state"}, 200)
		}
	})
}

// TestDeregisterWithoutID: a client without a stored id is found by its name, host and
// port, and the call is idempotent.
func TestDeregisterWithoutID(t *testing.T) {
	l := lab(t)
	nameless := strings.Replace(tool, `"`+id+`"`, "null", 1)
	send := func(name, path, body string, status int, want string) apitest.Call {
		return apitest.Expect(name, "service", "POST", path, body, status, want)
	}
	l.Run(t, []apitest.Call{
		send("before", deregister, nameless, 404, wrong(`service \"my-tool\" at 192.168.1.100:9090 was never registered`)),
		send("register", register, nameless, 200, "*"),
		send("another port", deregister, strings.Replace(nameless, "9090", "9091", 1), 404,
			wrong(`service \"my-tool\" at 192.168.1.100:9091 was never registered`)),
		send("deregister", deregister, nameless, 200, ""),
		send("deregister again", deregister, nameless, 200, ""),
		send("register two", register, nameless, 200, "*"),
		send("with another id", register, tool, 200, "*"),
		send("ambiguous name", deregister, nameless, 400,
			wrong(`id: is required: 2 services are \"my-tool\" at 192.168.1.100:9090`)),
		send("by id", deregister, tool, 200, ""),
		send("the remaining one", deregister, nameless, 200, ""),
		send("no id", deregister, `{"id":null}`, 400, wrong("id: is required")),
	})
}

// TestEnginesAreNoTools: routers call everything listed as a tool, but engines cannot be
// called like that.
func TestEnginesAreNoTools(t *testing.T) {
	l := lab(t)
	l.Run(t, []apitest.Call{
		apitest.Expect("register", "service", "POST", register, strings.Replace(tool, "tool-invoker",
			"code-execution-engine", 1), 200, "*"),
		apitest.Expect("tools", "viewer", "GET", "/api/v1/capabilities/tools/state", "", 200, `{"error":null,"data":{}}`),
		apitest.Expect("resources", "viewer", "GET", "/api/v1/capabilities/resources/state", "", 200,
			`{"error":null,"data":{}}`),
	})
}

package nodeapi_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
	"github.com/holdfast-metal/holdfast/server/nodeapi"
)

func lab(t testing.TB) *apitest.Lab {
	return apitest.New(t, func(m *auth.Mux, rpc grpc.ClientConnInterface, _ *server.Server) {
		nodeapi.Register(m, rpc, slog.New(slog.DiscardHandler))
	})
}

const (
	nodes  = "/api/v1/nodes"
	report = "/api/v1/report"
	mac    = "aa:bb:cc:dd:ee:01"
	node   = nodes + "/" + mac

	notFound = `{"detail":"Node not found"}`
)

func says(status string) string {
	return `{"mac_address":"` + mac + `","installation_status":"` + status + `","installation_error":"Disk not found"}`
}

// invalid returns the response to a body or query with one invalid member.
func invalid(where, field, msg, kind string) string {
	loc := []string{where}
	if field != "" {
		loc = append(loc, strings.Split(field, ".")...)
	}
	type violation struct {
		Loc  []string `json:"loc"`
		Msg  string   `json:"msg"`
		Type string   `json:"type"`
	}
	b, _ := json.Marshal(map[string]any{"detail": []violation{{loc, msg, kind}}})
	return string(b)
}

// shown returns the response for the tests' node. changes are pairs of texts to replace.
func shown(message string, changes ...string) string {
	text := `{"success":true,"data":{"id":"<id>","mac_address":"aa:bb:cc:dd:ee:01","hostname":"n1","ip_address":null,"state":"discovered","workflow_id":null,"vendor":null,"model":null,` +
		`"serial_number":null,"system_uuid":null,"arch":"x86_64","boot_mode":"uefi","group_id":null,"tags":[],"install_attempts":0,"install_progress":0,"last_install_error":null,` +
		`"state_changed_at":"2026-01-29T15:10:01Z","created_at":"2026-01-29T15:10:01Z","updated_at":"2026-01-29T15:10:01Z","last_seen_at":null},"message":"` + message + `"}`
	return strings.NewReplacer(changes...).Replace(text)
}

// made returns a lab with the tests' node.
func made(t testing.TB) *apitest.Lab {
	l := lab(t)
	if a := l.Send(apitest.Expect("", "operator", "POST", nodes,
		`{"mac_address":"AA-BB-CC-DD-EE-01","hostname":"n1","arch":"x86_64","boot_mode":"uefi"}`, 0, "")); a.Status != 201 {
		t.Fatalf("create a node: got %d %s", a.Status, a.Body)
	}
	return l
}

func TestTokens(t *testing.T) {
	l := made(t)
	var calls []apitest.Call
	for _, r := range []struct{ method, path, body string }{
		{"GET", nodes, ""}, {"POST", nodes, `{"mac_address":"02:00:00:00:00:01"}`}, {"GET", nodes + "/stalled", ""}, {"GET",
			node, ""}, {"PATCH", node, `{"hostname":"x"}`}, {"DELETE", node, ""},
		{"PATCH", node + "/state", `{"state":"pending"}`}, {"GET", node + "/history", ""}, {"POST", node + "/tags",
			`{"tag":"x"}`}, {"DELETE", node + "/tags/x", ""}, {"POST", report, says("started")},
	} {
		expect := func(token string, status int, want string) {
			calls = append(calls, apitest.Expect(r.method+r.path+" with "+token, token, r.method, r.path, r.body, status, want))
		}
		expect("", 401, `{"detail":"no credentials: send `+"`Authorization: Bearer` and a token (`holdfast token create`)"+
			`, or use a client certificate"}`)
		expect("revoked", 401, `{"detail":"token \"tok-revoked\" was revoked: ask for another one"}`)
		expect("expired", 401, "*")
		expect("=Bearer garbage", 401, "*")
		expect("service", 403, "*")
		if r.method != "GET" {
			expect("viewer", 403, "*")
		}
		if strings.HasPrefix(r.path, node) && r.method == "GET" {
			expect("elsewhere", 404, notFound)
		}
	}
	l.Run(t, calls)
}

func TestBodies(t *testing.T) {
	l := made(t)
	var calls []apitest.Call
	for _, r := range []struct{ method, path string }{{"POST", nodes}, {"PATCH", node}, {"PATCH", node + "/state"},
		{"POST", node + "/tags"}, {"POST", report}} {
		for name, c := range map[string]struct {
			body   string
			status int
			want   string
		}{
			"nothing": {"", 422, invalid("body", "", "body is not JSON: unexpected end of JSON input", "json_invalid")},
			"torn":    {`{"state":`, 422, invalid("body", "", "body is not JSON: unexpected end of JSON input", "json_invalid")},
			"a list":  {`[]`, 422, invalid("body", "", "body: want an object, not array", "json_invalid")},
			"much":    {`{"x":"` + strings.Repeat("x", 1<<20) + `"}`, 413, `{"detail":"body has more than 1048576 bytes"}`},
		} {
			calls = append(calls, apitest.Expect(name+" to "+r.method+r.path, "operator", r.method, r.path, c.body, c.status,
				c.want))
		}
	}
	send := func(name, method, path, body string, status int, want string) {
		calls = append(calls, apitest.Expect(name, "operator", method, path, body, status, want))
	}
	send("no MAC", "POST", nodes, `{}`, 422, invalid("body", "mac_address", "Field required", "missing"))
	send("MAC that is null", "POST", nodes, `{"mac_address":null}`, 422,
		invalid("body", "mac_address", "Field required", "missing"))
	send("MAC of a wrong type", "POST", nodes, `{"mac_address":7}`, 422,
		invalid("body", "mac_address", "want a string", "type_error"))
	for _, bad := range []string{"", "aa:bb", "zz:bb:cc:dd:ee:01", "aa:bb:cc:dd:ee:01:02", "aabbccddee0g",
		"00:00:00:00:00:00", "FF-FF-FF-FF-FF-FF", "01:00:5e:00:00:01"} {
		send("MAC "+bad, "POST", nodes, `{"mac_address":"`+bad+`"}`, 422, "*")
		send("report of the MAC "+bad, "POST", report, `{"mac_address":"`+bad+`"}`, 422, "*")
	}
	send("the MAC again", "POST", nodes, `{"mac_address":"AABBCCDDEE01"}`, 409,
		`{"detail":"Node with MAC aa:bb:cc:dd:ee:01 already exists"}`)
	send("hostname of a wrong type", "PATCH", node, `{"hostname":7}`, 422,
		invalid("body", "hostname", "want a string", "type_error"))
	send("tags of a wrong type", "PATCH", node, `{"tags":"x"}`, 422,
		invalid("body", "tags", "want a list of strings", "type_error"))
	send("no such workflow", "PATCH", node, `{"workflow_id":"none"}`, 404, `{"detail":"plan \"none\" not found"}`)
	for _, doubled := range []string{"//api/v1/report", "/api/v1//report", "/api/./v1/report"} {
		send("report to "+doubled, "POST", doubled, `{"hostname":"x"}`, 422,
			invalid("body", "mac_address", "Field required", "missing"))
	}
	send("no state", "PATCH", node+"/state", `{}`, 422, invalid("body", "state", "Field required", "missing"))
	send("unknown state", "PATCH", node+"/state", `{"state":"lost"}`, 422,
		invalid("body", "state", `"lost" is not a state of a node`, "value_error"))
	send("state in capitals", "PATCH", node+"/state", `{"state":"PENDING"}`, 422, "*")
	send("force of a wrong type", "PATCH", node+"/state", `{"state":"pending","force":"perhaps"}`, 422,
		invalid("body", "force", "force: want true or false, not string", "type_error"))
	send("bad transition", "PATCH", node+"/state", `{"state":"active"}`, 400, `{"detail":"Invalid state transition from 'discovered' to 'active'. Valid transitions: ['pending', 'retired']"}`)
	send("no tag", "POST", node+"/tags", `{"tag":""}`, 422, invalid("body", "tag", "Field required", "missing"))
	send("report without a MAC", "POST", report, `{}`, 422, invalid("body", "mac_address", "Field required", "missing"))
	send("progress of a wrong type", "POST", report, `{"mac_address":"`+mac+`","installation_progress":"half"}`, 422,
		invalid("body", "installation_progress", "installation_progress: want a whole number, not string", "type_error"))
	send("progress beyond the end", "POST", report, `{"mac_address":"`+mac+`","installation_progress":101}`, 422, "*")
	for _, bad := range []string{"completed", "STARTED", "exploded"} {
		send("installation_status "+bad, "POST", report, says(bad), 422, invalid("body", "installation_status",
			`"`+bad+`" is not a status: send started, progress, complete or failed`, "value_error"))
	}
	send("report of an unknown node", "POST", report, `{"mac_address":"aa:bb:cc:dd:ee:99"}`, 404, notFound)
	for _, r := range []struct{ method, path, body string }{
		{"GET", "", ""}, {"PATCH", "", `{"hostname":"x"}`}, {"DELETE", "", ""}, {"PATCH", "/state",
			`{"state":"pending"}`}, {"GET", "/history", ""}, {"POST", "/tags", `{"tag":"x"}`}, {"DELETE", "/tags/x", ""},
	} {
		send("unknown node "+r.method+r.path, r.method, nodes+"/nobody"+r.path, r.body, 404, notFound)
		send("unknown MAC "+r.method+r.path, r.method, nodes+"/02:00:00:00:00:99"+r.path, r.body, 404, notFound)
		send("no UTF-8 "+r.method+r.path, r.method, nodes+"/%ff"+r.path, r.body, 400, `{"detail":"the path is not UTF-8"}`)
	}
	for query, want := range map[string]string{
		"?state=lost":   invalid("query", "state", `"lost" is not a state of a node`, "value_error"),
		"?limit=0":      invalid("query", "limit", `want a whole number from 1 to 100000, not "0"`, "value_error"),
		"?limit=x":      invalid("query", "limit", `want a whole number from 1 to 100000, not "x"`, "value_error"),
		"?limit=100001": invalid("query", "limit", `want a whole number from 1 to 100000, not "100001"`, "value_error"),
		"?offset=-1":    invalid("query", "offset", `want a whole number from 0 to 1073741824, not "-1"`, "value_error"),
	} {
		send("list "+query, "GET", nodes+query, "", 422, want)
	}
	send("history limit", "GET", node+"/history?limit=201", "", 422,
		invalid("query", "limit", `want a whole number from 1 to 200, not "201"`, "value_error"))
	send("history offset", "GET", node+"/history?offset=x", "", 422,
		invalid("query", "offset", `want a whole number from 0 to 1073741824, not "x"`, "value_error"))
	send("stalled for no time", "GET", nodes+"/stalled?threshold_minutes=0", "", 422,
		invalid("query", "threshold_minutes", `want a whole number from 1 to 1048576, not "0"`, "value_error"))
	send("no such route", "GET", node+"/nothing", "", 404, `{"detail":"Not Found"}`)
	send("wrong method to all", "DELETE", nodes, "", 405, `{"detail":"Method Not Allowed"}`)
	send("wrong method", "PUT", node, `{}`, 405, `{"detail":"Method Not Allowed"}`)
	l.Run(t, calls)
}

func TestLife(t *testing.T) {
	l := lab(t)
	run := func(calls ...apitest.Call) { t.Helper(); l.Run(t, calls) }
	send := func(name, method, path, body string, status int, want string) apitest.Call {
		return apitest.Expect(name, "operator", method, path, body, status, want)
	}
	run(
		send("create", "POST", nodes,
			`{"mac_address":"AA-BB-CC-DD-EE-01","hostname":"n1","arch":"x86_64","boot_mode":"uefi","unknown":1}`, 201,
			shown("Node registered successfully")),
		send("get", "GET", node+"/", "", 200, shown("")),
		send("nothing to change", "PATCH", node, `{"unknown":1}`, 200, shown("")),
		send("list by state", "GET", nodes+"/?state=discovered", "", 200,
			strings.NewReplacer(`"data":`, `"data":[`, `},"message":""`, `}],"message":"","total":1`).Replace(shown(""))),
		// Each machine is a node.
		send("list, a page", "GET", nodes+"?limit=1&offset=2", "", 200, `{"success":true,"data":[],"message":"","total":2}`),
		send("change", "PATCH", node, `{"vendor":"ACME","hostname":null,"group_id":"g"}`, 200,
			shown("Node updated successfully",
				`"n1"`, `null`, `"vendor":null`, `"vendor":"ACME"`, `"group_id":null`, `"group_id":"g"`,
				`"updated_at":"2026-01-29T15:10:01Z"`, `"updated_at":"2026-01-29T15:10:02Z"`)),
		send("back", "PATCH", node, `{"vendor":"","hostname":"n1","group_id":null}`, 200, "*"),
		send("a report that fits nothing", "POST", report, says("complete"), 200, "*"),
		send("approve", "PATCH", node+"/state", `{"state":"pending","comment":"welcome"}`, 200, "*"),
		send("workflow", "PATCH", node, `{"workflow_id":"plan/repave-join"}`, 200, "*"),
		send("started", "POST", report, says("started"), 200, "*"),
		send("progress", "POST", report, `{"mac_address":"`+mac+
			`","installation_status":"progress","installation_progress":40}`, 200, "*"),
		send("first strike", "POST", report, says("failed"), 200, "*"),
		send("second strike", "POST", report, says("failed"), 200, "*"),
		send("still installing", "GET", nodes+"?state=installing&tag=", "", 200, "*"),
		send("third strike", "POST", report, says("failed"), 200, "*"),
		send("history", "GET", node+"/history", "", 200, `{"data":[`+
			`{"id":"<uuid>","from_state":"installing","to_state":"install_failed","triggered_by":"node_report","user_id":null,"comment":null,"metadata":{"attempt":3,"error":"Disk not found"},"created_at":"2026-01-29T15:10:11Z"},`+
			`{"id":"<uuid>","from_state":"pending","to_state":"installing","triggered_by":"node_report","user_id":null,"comment":null,"metadata":null,"created_at":"2026-01-29T15:10:07Z"},`+
			`{"id":"<uuid>","from_state":"discovered","to_state":"pending","triggered_by":"admin","user_id":"token:operator","comment":"welcome","metadata":null,"created_at":"2026-01-29T15:10:05Z"}],"total":3}`),
		send("history, a page", "GET", node+"/history?limit=1&offset=2", "", 200, `{"data":[`+
			`{"id":"<uuid>","from_state":"discovered","to_state":"pending","triggered_by":"admin","user_id":"token:operator","comment":"welcome","metadata":null,"created_at":"2026-01-29T15:10:05Z"}],"total":3}`),
		send("history, beyond", "GET", node+"/history?offset=3", "", 200, `{"data":[],"total":3}`),
		send("no way back without force", "PATCH", node+"/state", `{"state":"pending"}`, 400, "*"),
		send("force", "PATCH", node+"/state", `{"state":"pending","force":true}`, 200, "*"),
		send("started again", "POST", report+"/", says("started"), 200, "*"),
		send("complete", "POST", report, says("complete"), 200, "*"),
		send("verified", "PATCH", node+"/state", `{"state":"active"}`, 200, "*"),
		send("tag", "POST", node+"/tags", `{"tag":"Rack-7","tags":["gpu"]}`, 200, "*"),
		send("by another tag", "GET", nodes+"?tag=none", "", 200, `{"success":true,"data":[],"message":"","total":0}`),
		send("untag", "DELETE", node+"/tags/rack-7", "", 200, "*"),
		send("nothing is stalled", "GET", nodes+"/stalled", "", 200, `{"success":true,"data":[],"message":"","total":0}`),
		send("retire", "DELETE", node, "", 200, "*"),
		send("retired is the end", "PATCH", node+"/state", `{"state":"pending","force":true}`, 400, "*"),
	)
	m, ok := l.State().NodeByID(mac)
	if n := m.GetNode(); !ok || len(n.GetTags()) != 1 || n.GetTags()[0] != "gpu" || n.GetHostname() != "n1" ||
		n.GetGroupId() != "" || n.GetInstallAttempts() != 0 {
		t.Errorf("node at its end: got %v", n)
	}
}

// TestNodeWords: architecture and boot mode have few values, and the defaults of the
// original API.
func TestNodeWords(t *testing.T) {
	l := made(t)
	call := func(method, path, body string) apitest.Answer {
		t.Helper()
		return l.Send(apitest.Expect("", "operator", method, path, body, 0, ""))
	}
	if a := call("POST", nodes, `{"mac_address":"AA-BB-CC-DD-EE-77"}`); a.Status != 201 ||
		!strings.Contains(a.Body, `"arch":"x86_64","boot_mode":"bios"`) {
		t.Errorf("without either: got %d %s", a.Status, a.Body)
	}
	node := nodes + "/aa:bb:cc:dd:ee:77"
	for body, want := range map[string]int{
		`{"arch":"arm64","boot_mode":"uefi"}`: 200, `{"arch":"sparc"}`: 422, `{"boot_mode":"legacy"}`: 422,
		`{"boot_mode":null}`: 200,
	} {
		a := call("PATCH", node, body)
		if a.Status != want || want == 422 && !strings.Contains(a.Body, "is not one of") {
			t.Errorf("PATCH %s: got %d %s, want %d", body, a.Status, a.Body, want)
		}
	}
	if a := call("POST", nodes, `{"mac_address":"AA-BB-CC-DD-EE-78","arch":"x86"}`); a.Status != 422 {
		t.Errorf("create: got %d %s, want 422", a.Status, a.Body)
	}
}

func TestNoLeader(t *testing.T) {
	l := made(t)
	l.LoseLeader(true)
	const want = `{"detail":"no leader"}`
	var calls []apitest.Call
	for _, r := range []struct{ method, path, body string }{
		{"GET", nodes, ""}, {"POST", nodes, `{"mac_address":"02:00:00:00:00:01"}`}, {"GET", nodes + "/stalled", ""}, {"GET",
			node, ""}, {"PATCH", node, `{"hostname":"x"}`}, {"DELETE", node, ""},
		{"PATCH", node + "/state", `{"state":"pending"}`}, {"GET", node + "/history", ""}, {"POST", node + "/tags",
			`{"tag":"x"}`}, {"DELETE", node + "/tags/x", ""}, {"POST", report, says("started")},
	} {
		calls = append(calls, apitest.Expect(r.method+r.path, "operator", r.method, r.path, r.body, 503, want))
	}
	l.Run(t, calls)
}

// FuzzBodies sends arbitrary bodies as an operator. The response is a known status with
// JSON, and a refused request changes nothing.
func FuzzBodies(f *testing.F) {
	routes := [][2]string{{"PATCH", node}, {"PATCH", node + "/state"}, {"POST", node + "/tags"}, {"POST", report}}
	for i := range routes {
		for _, body := range []string{`{"hostname":"x","tags":["a"]}`, `{"state":"pending","force":true}`, `{"tag":"x"}`,
			says("started"), says("failed"), `[]`, `null`, "\xff", `{"tags":null,"state":null}`} {
			f.Add(byte(i), []byte(body))
		}
	}
	l := made(f)
	f.Fuzz(func(t *testing.T, route byte, body []byte) {
		r := routes[int(route)%len(routes)]
		l.Fuzzed(t, apitest.Call{Token: "operator", Method: r[0], Path: r[1], Body: string(body)}, 200, 400, 404, 413, 422)
	})
}

// FuzzCreate creates nodes with arbitrary values.
func FuzzCreate(f *testing.F) {
	for _, body := range []string{`{"mac_address":"02:00:00:00:00:01","hostname":"x"}`, `{"mac_address":"020000000001"}`,
		`{"mac_address":"0200.0000.0001"}`, `{"mac_address":null}`, `[]`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		l := lab(t)
		got := l.Fuzzed(t, apitest.Call{Token: "operator", Method: "POST", Path: nodes, Body: string(body)}, 201, 409, 413,
			422)
		if again := l.Fuzzed(t, apitest.Call{Token: "operator", Method: "POST", Path: nodes, Body: string(body)}, 409, 413,
			422); got.Status == 201 && again.Status != 409 {
			t.Errorf("%q: got two nodes", body)
		}
	})
}

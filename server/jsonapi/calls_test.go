package jsonapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
	"github.com/holdfast-metal/holdfast/server/jsonapi"
)

// exchange is a request and a part of its response.
type exchange struct {
	verb, path, body string
	status           int
	want             string
}

func (e exchange) check(t *testing.T, l *apitest.Lab) {
	t.Helper()
	w := ask(l, "admin", e.verb, e.path, e.body)
	got := strings.ReplaceAll(w.Body.String(), ": ", ":")
	if w.Code != e.status || !strings.Contains(strings.ReplaceAll(got, `", "`, `","`), e.want) {
		t.Errorf("%s %s %.200s: got %d %s, want %d with %s", e.verb, e.path, e.body, w.Code, w.Body, e.status, e.want)
	}
	kind := "application/json"
	if e.status >= 400 {
		kind = "application/problem+json"
	}
	if got := w.Header().Get("Content-Type"); got != kind {
		t.Errorf("%s %s: got content type %q, want %q", e.verb, e.path, got, kind)
	}
}

// TestCalls checks how paths, queries and bodies become requests, and errors become problems.
func TestCalls(t *testing.T) {
	l := lab(t)
	for _, e := range []exchange{
		{"POST", "/v1/machines", `{"machine_id":"m-1","labels":{"rack":"r7"},"spec":{"serial":"s-1"}}`, 200,
			`"machine_id":"m-1"`},
		{"GET", "/v1/machines/m-1", "", 200, `"labels":{"rack":"r7"}`},
		{"GET", "/v1/machines?filter=labels.rack%3Dr7&page_size=5", "", 200, `{"machines":[{"machine_id":"m-1"`},
		{"PATCH", "/v1/machines/m-1?update_mask=labels.env", `{"labels":{"env":"prod"}}`, 200, `"env":"prod"`},
		{"GET", "/v1/machines/m-1?consistency=stale", "", 200, `"rack":"r7"`},
		{"POST", "/v1/machines/m-1/phase", `{"phase":"READY","comment":"x"}`, 200, `"phase":"READY"`},
		{"GET", "/v1/machines/m-1/history", "", 200, `"entries":[`},
		{"GET", "/v1/plans/plan/inspect", "", 200, `"plan_id":"plan/inspect"`},
		{"GET", "/v1/plans/plan%2Finspect", "", 200, `"plan_id":"plan/inspect"`},
		{"POST", "/v1/plans/plan/inspect:release", `{"max_active":3}`, 200, `"plan_id":"plan/inspect"`},
		{"PUT", "/v1/webhooks/hook", `{"url":"https://example.com/x"}`, 200, `"name":"hook"`},
		{"DELETE", "/v1/webhooks/hook", "", 200, `{}`},
		{"GET", "/v1/whoami", "", 200, `"principal":"token:admin"`},

		{"POST", "/v1/plans/plan/inspect", "", 404, `"reason":"NO_SUCH_ROUTE"`},
		{"GET", "/v1/nothing", "", 404, `"status":404,"detail":"there is no route GET \"/v1/nothing\":see /docs","code":"NOT_FOUND","reason":"NO_SUCH_ROUTE"`},
		{"GET", "/v1/machine", "", 404, `there is no route GET \"/v1/machine\":did you mean /v1/machines?:see /docs`},
		{"GET", "/v1/machines/m-1/histry", "", 404, `did you mean /v1/machines/m-1/history?`},
		{"GET", "/v1/machines/", "", 404, `did you mean /v1/machines?`},
		{"DELETE", "/v1/runs", "", 405, `no route DELETE \"/v1/runs\":the path has GET, HEAD, POST:see /docs`},
		{"DELETE", "/v1/runs", "", 405, `"reason":"NO_SUCH_METHOD"`},
		{"GET", "/v1/machines/none", "", 404, `"code":"NOT_FOUND","reason":"MACHINE_NOT_FOUND"`},
		{"GET", "/v1/machines/m%ff", "", 400, `"reason":"INVALID_PATH"`},
		{"GET", "/v1/machines?filter=nothing%3D1", "", 400, `"fields":[{"field":"filter"`},
		{"GET", "/v1/machines?filtre=x", "", 400,
			`filtre:holdfast.v1.MachineService/ListMachines has no such parameter:did you mean filter?`},
		{"GET", "/v1/machines?page_size=010", "", 400, `page_size:\"010\" is not written as a decimal number:write 10`},
		{"POST", "/v1/machines", `{"machine_id":"m-9","machineId":"m-9"}`, 400, `machineId:it is there twice, as machine_id and as machineId`},
		{"GET", "/v1/machines?colour=x", "", 400, `no such parameter:want one of filter, page_size, page_token, consistency`},
		{"GET", "/v1/machines?pageSize=1", "", 400, `did you mean page_size?`},
		{"POST", "/v1/runs?consistency=stale", "{}", 400, `holdfast.v1.RunService/StartRun has no such parameter:it has none`},
		{"GET", "/v1/machines?page_size=many", "", 400, `"reason":"INVALID_QUERY"`},
		{"GET", "/v1/machines?page_size=many", "", 400,
			`page_size:\"many\" is not a whole number`},
		{"GET", "/v1/machines?page_size=many", "", 400, `"fields":[{"field":"page_size"`},
		{"GET", "/v1/machines?page_size=99999999999", "", 400, `\"99999999999\" is not a whole number of`},
		{"GET", "/v1/machines?page_size=1&page_size=2", "", 400, `page_size:it is given 2 times:give it once`},
		{"GET", "/v1/machines?a=%zz", "", 400, `is not percent-encoded`},
		{"GET", "/v1/events:watch?cursor=x", "", 400, `cursor:\"x\" is not a whole number`},
		{"GET", "/v1/machines?filter=%ff", "", 400, `"reason":"INVALID_QUERY"`},
		{"GET", "/v1/machines?consistency=fresh", "", 400, `"reason":"INVALID_CONSISTENCY"`},
		{"POST", "/v1/machines", `{"machin_id":"x"}`, 400, `machin_id:there is no such field:did you mean machine_id?`},
		{"POST", "/v1/machines", `{"spec":{"provder":"x"}}`, 400, `spec.provder:there is no such field:did you mean provider?`},
		{"POST", "/v1/machines", `{"spec":"fake"}`, 400, `spec:\"fake\" is not an object in { } with fields such as`},
		{"POST", "/v1/machines", `{"spec":{"mac_addresses":"aa"}}`, 400, `spec.mac_addresses:\"aa\" is not a list in [ ]`},
		{"POST", "/v1/machines", `{"labels":{"a":1}}`, 400, `labels.a:1 is not a text in quotes`},
		{"POST", "/v1/machines", `[]`, 400, `read the body:it is a list, not an object in { }`},
		{"POST", "/v1/machines", `hello`, 400, `it is not JSON:unexpected 'h' at line 1, column 1`},
		{"POST", "/v1/machines", `{"machine_id":"x","machine_id":"y"}`, 400, `machine_id:it is there twice:give it once`},
		{"POST", "/v1/runs", `{"machine_id":"m-1","params":{"force":true}}`, 400, `params.force:true is not a text in quotes`},
		{"POST", "/v1/runs", `{"machine_id":"m-1","plan_id":"plan/inspect"}`, 400,
			`"field":"request_id","description":"is required:it makes a retry safe:send it as the header Idempotency-Key"`},
		{"GET", "/v1/machines?consistency=fresh", "", 400, `\"fresh\" is neither stale nor linearizable`},
		{"POST", "/v1/machines", `{`, 400, `"reason":"INVALID_BODY"`},
		{"POST", "/v1/machines/m-1/phase", `{"phase":"BROKEN"}`, 400, `"reason":"INVALID_BODY"`},
		{"POST", "/v1/tokens", strings.Repeat(" ", 1<<20) + "{}", 413, `"reason":"BODY_TOO_LARGE"`},
		{"DELETE", "/v1/machines/none", "", 404, `"type":"about:blank","title":"Not Found"`},
		{"POST", "/v1/runs", `{"request_id":"r","machine_id":"m-1","plan_id":"plan/inspect"}`, 409,
			`"preconditions":[{"type":"CAPABILITY_MISSING"`},
	} {
		e.check(t, l)
	}
	if w := ask(l, "admin", "DELETE", "/v1/runs", ""); w.Header().Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("got Allow %q", w.Header().Get("Allow"))
	}
}

// able is a provider that no call reaches.
type able struct {
	providers.Inspector
	providers.PowerController
}

func (able) Kind() string { return "able" }

// TestIdempotencyKey checks that the header is the request id, and is refused if it has no effect.
func TestIdempotencyKey(t *testing.T) {
	set := providers.SetOf(map[string]providers.Provider{"fake": able{}})
	l := apitest.Driving(t, set, func(m *auth.Mux, rpc grpc.ClientConnInterface, _ *server.Server) {
		jsonapi.Register(m, rpc)
	})
	for _, m := range []string{"m-1", "m-2"} {
		exchange{"POST", "/v1/machines", `{"machine_id":"` + m + `","spec":{"provider":"fake"}}`, 200, ""}.check(t, l)
	}
	send := func(verb, path, key, body string) (int, string) {
		r := httptest.NewRequest(verb, "http://localhost"+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+l.Secret("admin"))
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		l.Handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	start := `{"machine_id":"m-1","plan_id":"plan/inspect"}`
	code, first := send("POST", "/v1/runs", "k-1", start)
	if code != http.StatusOK || !strings.Contains(first, `"k-1"`) {
		t.Fatalf("got %d %s", code, first)
	}
	if code, again := send("POST", "/v1/runs", "k-1", start); code != http.StatusOK ||
		fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("the same key: got %d %s, want %s", code, again, first)
	}
	for _, tt := range []struct {
		verb, path, body string
		status           int
		want             string
	}{
		{"POST", "/v1/runs", `{"machine_id":"m-1","plan_id":"plan/reboot"}`, 409, "ALREADY_EXISTS"},
		{"POST", "/v1/runs", `{"machine_id":"m-1","plan_id":"plan/inspect","request_id":"k-2"}`, 400, "differ"},
		{"POST", "/v1/tokens", `{"name":"x","role":"VIEWER"}`, 400, "NOT_IDEMPOTENT"},
		{"POST", "/v1/machines", `{"machine_id":"m-2"}`, 200, "m-2"},
		{"POST", "/v1/machines", `{}`, 400, "NOT_IDEMPOTENT"},
		{"GET", "/v1/machines/m-1", "", 200, "m-1"},
	} {
		if code, body := send(tt.verb, tt.path, "k-1", tt.body); code != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s %s %s: got %d %s, want %d with %s", tt.verb, tt.path, tt.body, code, body, tt.status, tt.want)
		}
	}
}

// TestTransientErrors checks that a call without a leader says when to retry.
func TestTransientErrors(t *testing.T) {
	l := lab(t)
	l.LoseLeader(true)
	w := ask(l, "admin", "POST", "/v1/machines", `{"machine_id":"m-9"}`)
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"code":"UNAVAILABLE"`) {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
}

// TestGetIssuers checks that anybody learns how to sign in, without a leader, and learns no more.
func TestGetIssuers(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := apitest.WithIssuers(t, []auth.Issuer{
		{URL: "https://tokens.example", Audience: "x"},
		{URL: "https://sso.example/dc", Audience: "holdfast", People: auth.People{ClientID: "dashboard",
			ClientSecretFile: secret, CLIClientID: "cli", DisplayName: "SSO"}},
	}, func(m *auth.Mux, rpc grpc.ClientConnInterface, _ *server.Server) { jsonapi.Register(m, rpc) })
	l.LoseLeader(true)
	w := ask(l, "", "GET", "/v1/issuers", "")
	want := `{"issuers":[{"issuer":"https://sso.example/dc","display_name":"SSO","client_id":"cli",` +
		`"scopes":["openid","profile"],"audience":"holdfast"}]}`
	if got := strings.ReplaceAll(strings.TrimSpace(w.Body.String()), ", ", ","); w.Code != 200 ||
		strings.ReplaceAll(got, `": `, `":`) != want {
		t.Errorf("got %d %s, want %s", w.Code, w.Body, want)
	}
}

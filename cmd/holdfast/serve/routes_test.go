package serve

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
	"github.com/holdfast-metal/holdfast/server/netbootapi"
	"github.com/holdfast-metal/holdfast/server/ui/history"
)

const (
	theMachine = "1165a9b6" // in pool gpu, with the token "agent"
	theMAC     = "aa:bb:cc:00:00:01"
	theRun     = "run-1" // of the machine busy, also in pool gpu
	theService = "550e8400-e29b-41d4-a716-446655440000"
)

// caller is a kind of caller, as named in docs/permissions.md.
type caller struct {
	name  string
	token string // of the lab, or "=" and the value of the header
	roles []string
}

// unknown reports whether a caller is not authenticated.
func (w caller) unknown() bool { return len(w.roles) == 0 }

func callers() []caller {
	return []caller{
		{name: "none", token: ""},
		{name: "forged", token: "=Bearer " + strings.Repeat("Zm9yZ2Vk", 10) + "Zm9yZ2"},
		{name: "forged JWT",
			token: "=Bearer eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0.eyJpc3MiOiJodHRwczovL3AxL29pZGMi" +
				"LCJzdWIiOiJ0b2stYWRtaW4iLCJhdWQiOiJob2xkZmFzdCJ9."},
		{name: "another scheme", token: "=Basic YWRtaW46YWRtaW4="},
		{name: "expired", token: "expired"},
		{name: "revoked", token: "revoked"},
		{name: "viewer", token: "viewer", roles: []string{"viewer"}},
		{name: "operator", token: "operator", roles: []string{"viewer", "operator", "operator of all pools"}},
		{name: "admin", token: "admin", roles: []string{"viewer", "operator", "operator of all pools", "admin"}},
		{name: "operator elsewhere", token: "elsewhere", roles: []string{"viewer", "operator"}},
		{name: "agent", token: "agent", roles: []string{"agent"}},
		{name: "another agent", token: "=Bearer " + anotherAgent, roles: []string{"agent"}},
		{name: "pool agent", token: "gpu", roles: []string{"pool-agent"}},
		{name: "another pool agent", token: "pool", roles: []string{"pool-agent"}},
		{name: "service", token: "service", roles: []string{"service"}},
	}
}

// anotherAgent is the token of another machine in another pool.
const anotherAgent = "YW5vdGhlciBhZ2VudCdzIHRva2VuLCBmb3IgYSBtYWNoaW5lIG9mIGFub3RoZXIgcG9vbCwgb2YgNjQgYnl0ZX"

// way is a request for a route, for the machine, the pool gpu, and the service of the lab.
type way struct {
	path, body string
	// foreign lists the callers whose role allows it, but which do not own the object.
	foreign []string
	// absent is the status for an object that does not exist, or is foreign, if it is not 404.
	absent int
	// people means that the route is for agents, and refuses users of any role.
	people bool
	// page is the status for a form that is sent by a browser. A successful one redirects to
	// another page. The request has its origin.
	page int
	// own means that the route accepts only its own kind of token, which no caller has.
	own bool
}

func ways() map[string]way {
	others := []string{"operator elsewhere", "another agent", "another pool agent"}
	node, ui := "/api/v1/nodes/"+theMachine, "/ui/machines/"+theMachine
	registration := `{"token":"","machine_id":"` + theMachine + `","hostname":"w","pool_name":"gpu","cpu":"8000m","memory":"16Gi","gpu_count":"1","private_ip":"10.0.0.1"}`
	service := `"serviceName":"my-tool","host":"10.0.0.1","port":9090,"serviceType":"tool-invoker"}`
	discovery := "/api/v1/management/discovery"
	const bulk = "typed=0&m=" + theMachine // not confirmed
	return map[string]way{
		"GET /healthz": {path: "/healthz"}, "GET /readyz": {path: "/readyz"}, "GET /version": {path: "/version"},
		"GET /metrics":                  {path: "/metrics"},
		"GET /debug/pprof/{profile...}": {path: "/debug/pprof/symbol"},

		"POST /api/v1/machine/register": {path: "/api/v1/machine/register", body: registration, foreign: others,
			people: true},
		"POST /api/v1/machine/keepalive": {path: "/api/v1/machine/keepalive", body: `{"machine_id":"` + theMachine +
			`","pool_name":"gpu"}`, foreign: others, absent: 500, people: true},
		"GET /api/v1/machine/list":   {path: "/api/v1/machine/list"},
		"GET /api/v1/machine/config": {path: "/api/v1/machine/config"},

		"GET /api/v1/nodes": {path: "/api/v1/nodes"},
		"POST /api/v1/nodes": {path: "/api/v1/nodes", body: `{"mac_address":"02:00:00:00:00:09"}`,
			foreign: others},
		"GET /api/v1/nodes/stalled":            {path: "/api/v1/nodes/stalled"},
		"GET /api/v1/nodes/{id}":               {path: node, foreign: others},
		"PATCH /api/v1/nodes/{id}":             {path: node, body: `{"hostname":"x"}`, foreign: others},
		"DELETE /api/v1/nodes/{id}":            {path: node, foreign: others},
		"PATCH /api/v1/nodes/{id}/state":       {path: node + "/state", body: `{"state":"installing"}`, foreign: others},
		"GET /api/v1/nodes/{id}/history":       {path: node + "/history", foreign: others},
		"POST /api/v1/nodes/{id}/tags":         {path: node + "/tags", body: `{"tag":"x"}`, foreign: others},
		"DELETE /api/v1/nodes/{id}/tags/{tag}": {path: node + "/tags/old", foreign: others},
		"POST /api/v1/report": {path: "/api/v1/report", body: `{"mac_address":"` + theMAC +
			`","installation_status":"started"}`, foreign: others},

		"GET /api/v1/boot":            {path: "/api/v1/boot?mac=" + theMAC},
		"GET /api/v1/install":         {path: "/api/v1/install", own: true},
		"POST /api/v1/install/report": {path: "/api/v1/install/report", body: `{"status":"started"}`, own: true},
		"POST /api/v1/install/log":    {path: "/api/v1/install/log", body: "text", own: true},
		"GET /netboot/{file}":         {path: "/netboot/autoexec.ipxe"},

		"POST /v2/pools/register": {path: "/v2/pools/register",
			body: `{"pool_id":"gpu","endpoint":"http://10.0.0.1:9200","node_id":"n","gpus":[]}`, foreign: others},
		"POST /v2/pools/{id}/heartbeat": {path: "/v2/pools/gpu/heartbeat", body: `{"pool_id":"gpu","gpus":[]}`,
			foreign: others},
		"POST /v2/pools/{id}/deregister": {path: "/v2/pools/gpu/deregister",
			body: `{"pool_id":"gpu","reason":"test"}`, foreign: others},
		"GET /v2/pools":      {path: "/v2/pools"},
		"GET /v2/pools/{id}": {path: "/v2/pools/gpu", foreign: others},
		"POST /v2/platform/providers/register": {path: "/v2/platform/providers/register",
			body: `{"provider_id":"of-gpu","endpoint":"https://p"}`, foreign: others},

		"POST " + discovery + "/register": {path: discovery + "/register", body: `{"id":null,` + service},
		"POST " + discovery + "/deregister": {path: discovery + "/deregister", body: `{"id":"` + theService + `",` +
			service},
		"POST " + discovery + "/update/{id}": {path: discovery + "/update/" + theService,
			body: `{"timestamp":"2026-01-29T15:10:00Z","healthy":false,"reason":"test"}`},
		"POST " + discovery + "/ping":              {path: discovery + "/ping", body: theService},
		"GET /api/v1/capabilities":                 {path: "/api/v1/capabilities"},
		"GET /api/v1/capabilities/tools/state":     {path: "/api/v1/capabilities/tools/state"},
		"GET /api/v1/capabilities/resources/state": {path: "/api/v1/capabilities/resources/state"},
		"GET /api/v1/capabilities/notifications":   {path: "/api/v1/capabilities/notifications"},
		"GET /api/v1/sd/prometheus":                {path: "/api/v1/sd/prometheus"},
		"GET /openapi.yaml":                        {path: "/openapi.yaml"},
		"GET /openapi/v1.json":                     {path: "/openapi/v1.json"},
		"GET /docs":                                {path: "/docs", page: 301},
		"GET /docs/app.js":                         {path: "/docs/app.js"},
		"GET /docs/app.css":                        {path: "/docs/app.css"},

		"GET /ui/assets/{hash}/{name}": {path: "/ui/assets/0/app.css"}, "GET /ui/signin": {path: "/ui/signin"},
		"GET /ui/signin/with":     {path: "/ui/signin/with?issuer=x", page: 404}, // there is no issuer
		"GET /ui/signin/callback": {path: "/ui/signin/callback?state=x", page: 401},
		"POST /ui/signin":         {path: "/ui/signin", body: "token=x", page: 303}, "POST /ui/signout": {path: "/ui/signout",
			page: 303},
		"GET /ui/machines": {path: "/ui/machines"}, "GET /ui/machines/{id}": {path: ui, foreign: others},
		"GET /ui/runs": {path: "/ui/runs"}, "GET /ui/runs/{id}": {path: "/ui/runs/" + theRun, foreign: others},
		"GET /ui/runs/{id}/log": {path: "/ui/runs/" + theRun + "/log?as=text",
			foreign: others}, "GET /ui/events": {path: "/ui/events"},
		"GET /ui/waves": {path: "/ui/waves"}, "GET /ui/waves/{id}": {path: "/ui/waves/w", foreign: others},
		"GET /ui/waves/{id}/cancel":  {path: "/ui/waves/w/cancel", foreign: others},
		"POST /ui/waves/{id}/cancel": {path: "/ui/waves/w/cancel", body: "typed=1", foreign: others, page: 303},
		"GET /ui/waves/{id}/retry":   {path: "/ui/waves/canceled/retry", foreign: others},
		"POST /ui/waves/{id}/retry": {path: "/ui/waves/canceled/retry", body: "typed=1&request=w2", foreign: others,
			page: 303},
		"GET /ui/find": {path: "/ui/find?q=m"}, "GET /ui/{path...}": {path: "/ui/none/such", page: 404},
		"GET /ui/plans": {path: "/ui/plans"}, "GET /ui/plans/{id...}": {path: "/ui/plans/plan/inspect"},
		"GET /ui/pools": {path: "/ui/pools"}, "GET /ui/services": {path: "/ui/services"},
		"GET /ui/audit": {path: "/ui/audit"}, "GET /ui/cluster": {path: "/ui/cluster"},
		"GET /ui/charts": {path: "/ui/charts"}, "GET /ui/charts/data": {path: "/ui/charts/data?range=24h"},
		"GET /ui/images": {path: "/ui/images"}, "GET /ui/installs": {path: "/ui/installs"},
		"GET /ui/tokens": {path: "/ui/tokens"}, "GET /ui/secrets": {path: "/ui/secrets"},
		"GET /ui/sessions":           {path: "/ui/sessions"},
		"GET /ui/sessions/{id}/end":  {path: "/ui/sessions/none/end", page: 404},
		"POST /ui/sessions/{id}/end": {path: "/ui/sessions/none/end", body: "typed=1", page: 404},
		"GET /ui/webhooks":           {path: "/ui/webhooks"}, "GET /ui/hardware": {path: "/ui/hardware"},
		"GET /ui/alerts":            {path: "/ui/alerts"},
		"GET /ui/machines/{id}/run": {path: ui + "/run", foreign: others},
		"POST /ui/machines/{id}/run": {path: "/ui/machines/other/run", body: "plan=plan/inspect", foreign: others,
			page: 409},
		"GET /ui/machines/{id}/phase":    {path: ui + "/phase", foreign: others},
		"POST /ui/machines/{id}/phase":   {path: ui + "/phase", body: "phase=MAINTENANCE", foreign: others, page: 303},
		"GET /ui/machines/{id}/approve":  {path: ui + "/approve", foreign: others},
		"POST /ui/machines/{id}/approve": {path: "/ui/machines/other/approve", body: "comment=x", foreign: others, page: 303},
		"GET /ui/runs/{id}/cancel":       {path: "/ui/runs/" + theRun + "/cancel", foreign: others},
		"POST /ui/runs/{id}/cancel": {path: "/ui/runs/" + theRun + "/cancel", body: "comment=x", foreign: others,
			page: 303},
		"GET /ui/release/{id...}":        {path: "/ui/release/plan/inspect"},
		"POST /ui/release/{id...}":       {path: "/ui/release/plan/inspect", page: 303},
		"GET /ui/machines/{id}/console":  {path: ui + "/console", foreign: others},
		"GET /ui/compare":                {path: "/ui/compare"},
		"GET /ui/bulk/runs/power-on":     {path: "/ui/bulk/runs/power-on?m=" + theMachine},
		"POST /ui/bulk/runs/power-on":    {path: "/ui/bulk/runs/power-on", body: bulk, page: 200},
		"GET /ui/bulk/runs/power-off":    {path: "/ui/bulk/runs/power-off?m=" + theMachine},
		"POST /ui/bulk/runs/power-off":   {path: "/ui/bulk/runs/power-off", body: bulk, page: 400},
		"GET /ui/bulk/runs/power-cycle":  {path: "/ui/bulk/runs/power-cycle?m=" + theMachine},
		"POST /ui/bulk/runs/power-cycle": {path: "/ui/bulk/runs/power-cycle", body: bulk, page: 400},
		"GET /ui/bulk/runs/plan":         {path: "/ui/bulk/runs/plan?m=" + theMachine},
		"POST /ui/bulk/runs/plan":        {path: "/ui/bulk/runs/plan", body: bulk, page: 400},
		"GET /ui/bulk/phase":             {path: "/ui/bulk/phase?m=" + theMachine},
		"POST /ui/bulk/phase":            {path: "/ui/bulk/phase", body: bulk, page: 400},
		"GET /ui/bulk/labels/set":        {path: "/ui/bulk/labels/set?m=" + theMachine},
		"POST /ui/bulk/labels/set":       {path: "/ui/bulk/labels/set", body: bulk, page: 400},
		"GET /ui/bulk/labels/remove":     {path: "/ui/bulk/labels/remove?m=" + theMachine},
		"POST /ui/bulk/labels/remove":    {path: "/ui/bulk/labels/remove", body: bulk, page: 400},
		"GET /ui/check":                  {path: "/ui/check"},
		"POST /ui/check": {path: "/ui/check", body: "plan=plan_id:+p%0Asteps:+[{name:+a,+inspect:+{}}]",
			page: 200},
		"GET /ui/probe/{id...}":  {path: "/ui/probe/plan/inspect"},
		"POST /ui/probe/{id...}": {path: "/ui/probe/plan/inspect", body: "machine=" + theMachine, foreign: others, page: 200},
		"GET /ui/drill":          {path: "/ui/drill", page: 409}, // no peer to hand over to
		"POST /ui/drill":         {path: "/ui/drill", page: 409},
	}
}

// equipped returns a lab with all HTTP APIs, and an object for each.
func equipped(t *testing.T) (*apitest.Lab, []auth.Route) {
	t.Helper()
	var mux *auth.Mux
	l := apitest.New(t, func(m *auth.Mux, rpc grpc.ClientConnInterface, s *server.Server) {
		for _, add := range apis(s, netbootapi.Config{}, history.New(history.Config{}, nil, nil),
			secrets.NewSessions(nil, time.Now), slog.New(slog.DiscardHandler)) {
			add(m, rpc)
		}
		mux = m
	})
	l.Do(&internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "pool-1"}})
	sum := sha256.Sum256([]byte(anotherAgent))
	l.Do(&internalv1.CreateAgentMachine{MachineId: "2222bbbb", Pool: "pool-1", PendingTtlMs: 3600_000,
		Token: &internalv1.StoredToken{
			Sha256: sum[:], Token: &holdfastv1.Token{TokenId: "tok-another", Name: "another"}}})
	l.Do(&internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: theMachine,
		Spec: &holdfastv1.MachineSpec{MacAddresses: []string{theMAC}}}, Paths: []string{"spec.mac_addresses"}})
	l.Do(&internalv1.UpdateNode{Id: theMachine, Node: &holdfastv1.NodeRecord{Tags: []string{"old"}},
		Paths: []string{"tags"}})
	l.Do(&internalv1.RegisterPool{Pool: &holdfastv1.Pool{PoolId: "gpu"}, TtlMs: 15_000})
	l.Do(&internalv1.ReportNode{Discover: true, MachineId: "other",
		Report: &holdfastv1.ReportNodeRequest{MacAddress: "02:00:00:00:00:aa"}})
	l.Do(&internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "other",
		Spec: &holdfastv1.MachineSpec{Pool: "gpu"}}, Paths: []string{"spec.pool"}})
	l.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "busy",
		Spec: &holdfastv1.MachineSpec{Pool: "gpu"}}})
	l.Do(&internalv1.StartRun{RunId: theRun, MachineId: "busy", RequestId: "r", PlanId: "plan/inspect"})
	for _, id := range []string{"w", "canceled"} {
		l.Do(&internalv1.StartWave{MachineIds: []string{"busy"},
			Wave: &holdfastv1.Wave{WaveId: id, PlanId: "plan/inspect"}})
	}
	l.Do(&internalv1.CancelWave{WaveId: "canceled"})
	l.Do(&internalv1.RegisterProvider{Provider: &holdfastv1.PlatformProvider{ProviderId: "of-gpu", PoolId: "gpu"}})
	l.Do(&internalv1.RegisterService{NewId: theService, TtlMs: 60_000,
		Target: &holdfastv1.ServiceTarget{Id: theService, ServiceName: "my-tool", ServiceType: "tool-invoker",
			Host: "10.0.0.1", Port: 9090}})
	return l, mux.Routes()
}

// begun is a recorder that signals the first part of an answer.
type begun struct {
	*httptest.ResponseRecorder
	sent func()
}

func (b begun) Flush() {
	b.ResponseRecorder.Flush()
	b.sent()
}

// send sends a request through the real chain of handlers. A stream is closed after its first part.
func send(t *testing.T, l *apitest.Lab, pattern, path, body, token string) *httptest.ResponseRecorder {
	t.Helper()
	method, _, _ := strings.Cut(pattern, " ")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	if strings.Contains(pattern, " /ui/") {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if literal, ok := strings.CutPrefix(token, "="); ok {
		req.Header.Set("Authorization", literal)
	} else if token != "" {
		req.Header.Set("Authorization", "Bearer "+l.Secret(token))
	}
	w := begun{httptest.NewRecorder(), func() {}}
	if strings.Contains(pattern, "notifications") || strings.HasSuffix(pattern, "/ui/events") {
		w.sent = cancel
	}
	l.Handler.ServeHTTP(w, req)
	if w.Code == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") == "" {
		t.Errorf("%s: got a 401 without WWW-Authenticate", pattern)
	}
	return w.ResponseRecorder
}

// documentedRoutes reads both tables of routes in docs/permissions.md.
func documentedRoutes(t *testing.T) map[string][]string {
	t.Helper()
	doc, err := os.ReadFile("../../../docs/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string][]string{}
	for _, head := range []string{"| route | who |\n|---|---|\n", "| route of the HTTP APIs | who |\n|---|---|\n"} {
		_, rows, _ := strings.Cut(string(doc), head)
		rows, _, _ = strings.Cut(rows, "\n\n")
		for row := range strings.SplitSeq(strings.TrimSpace(rows), "\n") {
			what, who, _ := strings.Cut(strings.Trim(row, "| "), " | ")
			table[strings.Trim(what, "`")] = strings.Split(who, ", ")
		}
	}
	return table
}

// wantStatus returns the expected status for a caller.
func wantStatus(w caller, about way, rule []string) (least, most int) {
	person := slices.ContainsFunc(w.roles,
		func(r string) bool { return slices.Contains([]string{"viewer", "operator", "admin"}, r) })
	if about.own {
		return 401, 401
	}
	switch let := slices.ContainsFunc(w.roles, func(r string) bool { return slices.Contains(rule, r) }); {
	case slices.Contains(rule, "anybody") && about.page == 0:
		return 200, 299
	case w.unknown() && about.page == 404 && !slices.Contains(rule, "anybody"):
		return 401, 401
	case slices.Contains(rule, "anybody"), about.page > 0 && slices.Contains(rule, "anybody with credentials"):
		return about.page, about.page
	case w.unknown():
		return 401, 401
	case !let && !slices.Contains(w.roles, "admin"), person && about.people:
		return 403, 403
	case slices.Contains(about.foreign, w.name):
		return 403, max(about.absent, 404)
	case about.page > 0:
		return about.page, about.page
	}
	return 200, 299
}

// TestRouteMatrix sends every route as every kind of caller, through the real chain of handlers and
// the real state. The status must be that of docs/permissions.md, a refused request must not change
// the state, and the answer must match openapi.yaml.
func TestRouteMatrix(t *testing.T) {
	l, routes := equipped(t)
	rules, all, described := documentedRoutes(t), ways(), describe(t)
	asked := 0
	for _, r := range routes {
		if strings.HasSuffix(r.Pattern, "/{$}") {
			continue // the same with a trailing slash: TestRoutesAreDocumented checks its rule
		}
		if strings.Contains(r.Pattern, " /v1/") {
			continue // TestEveryMethodIsAuthorized of package jsonapi asks it
		}
		about, ok := all[r.Pattern]
		if !ok || len(rules[r.Pattern]) == 0 {
			t.Errorf("%s: this test does not know how to ask it, or docs/permissions.md lacks it", r.Pattern)
			continue
		}
		for _, w := range callers() {
			asked++
			before := l.Dump()
			answer := send(t, l, r.Pattern, about.path, about.body, w.token)
			got := answer.Code
			if err := described.check(r.Pattern, answer); err != nil {
				t.Errorf("by %s: %v", w.name, err)
			}
			least, most := wantStatus(w, about, rules[r.Pattern])
			if got < least || got > most || least == 403 && got != 403 && got != most {
				t.Errorf("%s by %s: got %d, want %d to %d", r.Pattern, w.name, got, least, most)
			}
			diff := cmp.Diff(before, l.Dump())
			switch {
			case diff == "":
			case got < 400: // its object may be changed or deleted, so the next one gets a new lab
				l, _ = equipped(t)
			default:
				t.Errorf("%s by %s: refused with %d, but got a changed state (-before +after):\n%s", r.Pattern, w.name, got,
					diff)
			}
		}
	}
	// Routes of install sessions have their own token: see the tests of netbootapi.
	own := []string{"GET /api/v1/install 200", "POST /api/v1/install/log 200", "POST /api/v1/install/report 200"}
	if diff := cmp.Diff(own, described.missing()); diff != "" {
		t.Errorf("answers of openapi.yaml that did not occur (-want +got):\n%s", diff)
	}
	if asked < 30*len(callers()) {
		t.Errorf("got %d requests, too few to prove anything", asked)
	}
}

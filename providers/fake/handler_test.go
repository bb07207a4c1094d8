package fake_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// request makes one request to a fleet.
func request(t *testing.T, f *fake.Fleet, method, path, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	b, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, strings.TrimSpace(string(b))
}

func TestHandler(t *testing.T) {
	f := fake.NewFleet(fake.Config{})
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		want                     string // in the answer
	}{
		{"health", "GET", "/healthz", "", 200, "ok"},
		{"no effects are a list", "GET", "/effects", "", 200, "[]"},
		{"no machines are a list", "GET", "/machines", "", 200, "[]"},
		{"after is no number", "GET", "/effects?after=x", "", 400, `after is \"x\"`},
		{"unknown machine", "GET", "/machines/m-1", "", 404, `machine \"m-1\" was never used`},
		{"unknown operation", "POST", "/ops/dance", "{}", 404, `unknown operation \"dance\"`},
		{"no machine", "POST", "/ops/inspect", "{}", 400, "machine_id is empty"},
		{"unknown field", "POST", "/ops/inspect", `{"machine": "m-1"}`, 400, `unknown key \"machine\"`},
		{"no JSON", "POST", "/ops/inspect", "x", 400, "read request"},
		{"too long", "POST", "/ops/inspect", strings.Repeat(" ", 5<<20), 400, "too large"},
		{"bad arguments", "POST", "/ops/power_off", `{"machine_id": "m-1", "args": []}`, 400, "read arguments"},
		{"bad action", "POST", "/ops/power_off", `{"machine_id": "m-1", "args": {"Action": "cycle"}}`, 400,
			`power action \"cycle\" is not one of`},
		{"operation", "POST", "/ops/power_off",
			`{"machine_id": "m-1", "run_id": "r-1", "epoch": 3, "args": {"Action": "hard-off"}}`, 200, "null"},
		{"its effect", "GET", "/effects?machine_id=m-1&run_id=r-1&after=0", "", 200,
			`"epoch":3,"effect":"power_off","destructive":true,"at":"20`},
		{"its machine", "GET", "/machines/m-1", "", 200, `"machine_id":"m-1"`},
		{"all machines", "GET", "/machines", "", 200, `[{"machine_id":"m-1"`},
		{"wrong method", "GET", "/ops/inspect", "", 405, "Method Not Allowed"},
	} {
		status, body := request(t, f, c.method, c.path, c.body)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: got %d %s, want %d with %s", c.name, status, body, c.status, c.want)
		}
	}
}

func TestFaultsOverHTTP(t *testing.T) {
	f := fake.NewFleet(fake.Config{Faults: fake.Faults{Latency: fake.Duration(time.Second), Hang: []string{"inspect"}}})
	check := func(wantAll fake.Faults, wantMachines map[string]fake.Faults) {
		t.Helper()
		all, machines := f.Faults()
		if diff := cmp.Diff(wantAll, all) + cmp.Diff(wantMachines, machines); diff != "" {
			t.Fatal(diff)
		}
	}
	set := func(method, body string, want int) string {
		t.Helper()
		status, answer := request(t, f, method, "/faults", body)
		if status != want {
			t.Fatalf("%s %s: got %d %s, want %d", method, body, status, answer, want)
		}
		return answer
	}
	all := fake.Faults{Latency: fake.Duration(time.Second), Hang: []string{"inspect"}}
	set("POST", `{"machines": {"a": {"auth": true}, "b": {"hang": []}}}`, 200)
	machines := map[string]fake.Faults{"a": {Latency: all.Latency, Hang: all.Hang, Auth: true},
		"b": {Latency: all.Latency, Hang: []string{}}}
	check(all, machines)

	set("POST", "latency: 0s\nfail: 0.5\nmachines: {b: null, a: {only_first: 1}}", 200)
	all.Latency, all.Fail = 0, 0.5
	a := machines["a"]
	a.OnlyFirst = 1
	machines = map[string]fake.Faults{"a": a}
	check(all, machines)

	for _, bad := range []string{`{"fail": 7}`, `{"nope": 1}`, `{"machines": {"a": {"nope": 1}}}`, `{"seed": 1}`, `[`} {
		if answer := set("POST", bad, 400); !strings.Contains(answer, "set faults: ") {
			t.Errorf("%s: got %s", bad, answer)
		}
	}
	check(all, machines)

	_, shown := request(t, f, "GET", "/faults", "")
	set("PUT", "{}", 200)
	check(fake.Faults{}, map[string]fake.Faults{})
	set("PUT", shown, 200)
	check(all, machines)
}

func TestStateOverHTTP(t *testing.T) {
	inLab(t, fake.Faults{}, func(l *lab) {
		l.ok(l.p.InsertMedia(l.ctx, op("m"), l.m, "http://192.0.2.1/a.iso"))
		l.ok(l.p.SetBootDevice(l.ctx, op("b"), l.m, providers.BootDevice{Mode: "PXE"}))
		l.ok(l.p.ApplyNetwork(l.ctx, op("n"), l.m, "x", 0))
		l.start("t", "true")
		l.join("prod")
		status, body := request(l.T, l.fleet, http.MethodGet, "/machines/m-1", "")
		var got fake.MachineState
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
			l.Fatalf("got %d %s, %v", status, body, err)
		}
		want := fake.MachineState{
			MachineID: "m-1", Power: "on", Reachable: true, ReachableReason: "PingOK", BootID: l.facts().BootID, Boots: 1,
			Image:      "factory",
			BootDevice: "PXE", Media: "http://192.0.2.1/a.iso", Cluster: "prod", NetworkToken: op("n").Token(),
			Commands: 1, Joins: 1, Since: time.Now().Add(-joinTime).UTC(),
			Calls: map[string]int{"media_insert": 1, "boot_device": 1, "net_apply": 1, "command": 1, "join": 1},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			l.Fatal(diff)
		}
	})
}

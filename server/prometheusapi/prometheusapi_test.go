package prometheusapi_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
	"github.com/holdfast-metal/holdfast/server/prometheusapi"
)

const path = "/api/v1/sd/prometheus"

func lab(t testing.TB) *apitest.Lab {
	l := apitest.New(t, func(m *auth.Mux, rpc grpc.ClientConnInterface,
		_ *server.Server) {
		prometheusapi.Register(m, rpc)
	})
	register := func(id string, spec *holdfastv1.MachineSpec, labels map[string]string) {
		l.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: id, Spec: spec, Labels: labels}})
	}
	register("m-1", &holdfastv1.MachineSpec{
		Pool: "gpu", Rack: "r7", Location: "hall 2", SshEndpoint: "root@10.0.0.1:22",
		BmcEndpoint: "https://10.9.0.1/redfish/v1", TargetClusterRef: "prod",
	}, map[string]string{"env": "prod", "example.com/team-a": "x"})
	register("m-2", &holdfastv1.MachineSpec{Rack: "r8", SshEndpoint: "[2001:db8::2]:22"}, nil)
	register("m-3", &holdfastv1.MachineSpec{Rack: "r7", BmcEndpoint: "bmc-3"}, nil)
	return l
}

// target is a target as Prometheus reads it.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

func ask(t *testing.T, l *apitest.Lab, token, query string) []target {
	t.Helper()
	got := l.Send(apitest.Call{Token: token, Method: "GET", Path: path + query})
	var all []target
	if err := json.Unmarshal([]byte(got.Body), &all); got.Status != 200 || err != nil || all == nil ||
		got.Header["Content-Type"][0] != "application/json" {
		t.Fatalf("GET %s: got %d %v %s, want 200 and a list in JSON: %v", query, got.Status, got.Header, got.Body, err)
	}
	return all
}

func TestLabels(t *testing.T) {
	want := target{[]string{"10.0.0.1:9100"}, map[string]string{
		"__meta_holdfast_machine_id": "m-1", "__meta_holdfast_pool": "gpu", "__meta_holdfast_rack": "r7",
		"__meta_holdfast_location": "hall 2",
		"__meta_holdfast_provider": "", "__meta_holdfast_cluster": "prod", "__meta_holdfast_hostname": "",
		"__meta_holdfast_phase": "READY", "__meta_holdfast_effective_state": "READY",
		"__meta_holdfast_node_state": "PENDING", "__meta_holdfast_agent_state": "",
		"__meta_holdfast_label_env": "prod", "__meta_holdfast_label_example_com_team_a": "x",
	}}
	if diff := cmp.Diff([]target{want}, ask(t, lab(t), "viewer", "?filter=machine_id=m-1")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTargets(t *testing.T) {
	l := lab(t)
	for _, c := range []struct {
		token, query string
		want         []string
	}{
		{"viewer", "", []string{"10.0.0.1:9100", "[2001:db8::2]:9100"}},
		{"viewer", "/?port=9256", []string{"10.0.0.1:9256", "[2001:db8::2]:9256"}},
		{"viewer", "?address=bmc", []string{"10.9.0.1:9100", "bmc-3:9100"}},
		{"viewer", "?address=host&filter=rack%3Dr7", []string{"10.0.0.1:9100"}},
		{"viewer", "?filter=pool%3Dgpu+AND+labels.env%3Dprod", []string{"10.0.0.1:9100"}},
		{"viewer", "?filter=phase%3DRETIRED", []string{}},
		{"elsewhere", "", []string{}}, // of another pool
	} {
		got := []string{}
		for _, g := range ask(t, l, c.token, c.query) {
			got = append(got, g.Targets...)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s by %s (-want +got):\n%s", c.query, c.token, diff)
		}
	}
}

func TestMoreThanAPage(t *testing.T) {
	l := lab(t)
	for i := range 1500 {
		l.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{
			MachineId: fmt.Sprintf("x-%04d", i), Spec: &holdfastv1.MachineSpec{Rack: "many",
				SshEndpoint: fmt.Sprintf("10.1.%d.%d:22", i/250, i%250)},
		}})
	}
	seen := map[string]bool{}
	for _, g := range ask(t, l, "viewer", "?filter=rack=many") {
		seen[g.Targets[0]] = true
	}
	if len(seen) != 1500 {
		t.Errorf("got %d machines, want all 1500", len(seen))
	}
}

func TestErrors(t *testing.T) {
	l := lab(t)
	l.Run(t, []apitest.Call{
		apitest.Expect("unauthenticated", "", "GET", path, "", 401, "*"),
		apitest.Expect("agent", "agent", "GET", path, "", 403, "*"),
		apitest.Expect("port", "viewer", "GET", path+"?port=0", "", 400,
			`{"error":"port: want a number from 1 to 65535, not \"0\""}`),
		apitest.Expect("no port", "viewer", "GET", path+"?port=http", "", 400,
			`{"error":"port: want a number from 1 to 65535, not \"http\""}`),
		apitest.Expect("address", "viewer", "GET", path+"?address=moon", "", 400,
			`{"error":"address: want host or bmc, not \"moon\""}`),
		apitest.Expect("filter", "viewer", "GET", path+"?filter=nope%3D1", "", 400, "*"),
		apitest.Expect("post", "viewer", "POST", path, "", 405, "*"),
	})
	l.LoseLeader(true)
	l.Run(t, []apitest.Call{apitest.Expect("no leader", "viewer", "GET", path, "", 503, `{"error":"no leader"}`)})
}

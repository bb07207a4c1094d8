package fleet

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// foundFleet returns machines that differ in every field that can be looked up.
func foundFleet(t *testing.T) *nodetest.Node {
	n := nodetest.New()
	for _, pool := range []string{"a", "b"} {
		n.Do(t, &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: pool}})
	}
	for i := range 40 {
		m := &holdfastv1.Machine{MachineId: fmt.Sprintf("m-%02d", i),
			Labels: map[string]string{"env": []string{"prod", "test"}[i%2]},
			Spec: &holdfastv1.MachineSpec{Rack: fmt.Sprintf("r%d", i%4), Pool: []string{"a", "b", ""}[i%3],
				Serial: fmt.Sprintf("S%04d", i)}}
		if i%5 == 0 {
			m.Labels["slot"] = fmt.Sprint(i)
		}
		n.Do(t, &internalv1.RegisterMachine{Machine: m})
		if i%6 == 0 {
			n.Do(t, &internalv1.SetMachinePhase{MachineId: m.GetMachineId(), Phase: holdfastv1.MachineStatus_MAINTENANCE})
		}
	}
	n.Start(t, "m-01", "run-1", "plan/reboot")
	var seen []*internalv1.MachineConditions
	for i := range 9 {
		seen = append(seen, &internalv1.MachineConditions{MachineId: fmt.Sprintf("m-%02d", i),
			Conditions: []*holdfastv1.Condition{{Type: "BMCReachable", Status: i%3 > 0}, {Type: "PoweredOn", Status: i%2 > 0}}})
	}
	n.Do(t, &internalv1.ObserveConditions{Machines: seen})
	return n
}

// A filtered list must contain exactly the machines that match when each is checked, for
// every caller and every kind of lookup.
func TestListsMatchScans(t *testing.T) {
	n := foundFleet(t)
	s := NewMachines(&edge.Peer{Cluster: n, State: n.Peer}, nil)
	for _, id := range []*holdfastv1.Identity{
		{Role: holdfastv1.Role_ADMIN},
		{Role: holdfastv1.Role_OPERATOR, Pools: []string{"a"}},
		{Role: holdfastv1.Role_OPERATOR, Pools: []string{"a", "b"}},
		{Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"none"}},
		{Role: holdfastv1.Role_POOL_AGENT},
		{Role: holdfastv1.Role_AGENT, MachineId: "m-07"},
	} {
		for _, text := range []string{
			"", "rack=r1", "rack:r1", "rack!=r1", "rack=r1 OR rack=r2", "rack=none", "rack=r*", `rack=""`, "pool=a",
			"pool=a AND rack=r1",
			"labels.env=prod", "labels.env=prod AND phase=MAINTENANCE", "labels:slot", "labels.slot=5", `labels.slot=""`,
			"NOT labels.env=prod",
			"phase=MAINTENANCE", "phase=RMA", "effective_state=MAINTENANCE", "effective_state=PROVISIONING",
			"effective_state=IN_SERVICE",
			"effective_state=RMA OR rack=r3", "serial=*2*", "serial=S0012", "machine_id=m-1*", "machine_id=m-07",
			"node_state=PENDING", "agent_state=READY",
			"conditions.Degraded=true", "conditions.InCustomerCluster=false", "conditions.Reachable=unknown",
			"(rack=r1 OR phase=MAINTENANCE) AND labels.env=prod",
			"revision<9", "active_run_id=run-1", "active_run_id:*",
			"power=OFF", "power=ON", "power=UNKNOWN AND rack=r1", "power=OFF AND rack=r2", "NOT power=OFF",
			"needs_attention=true", "needs_attention=false", "issues.type:BMCUnreachable",
		} {
			f, err := request.Filter(machineFilter, text)
			if err != nil {
				t.Fatal(err)
			}
			var want, got []string
			for m := range n.Peer.View().Machines("") {
				if f.Match(m) && scope.Visible(id, m) {
					want = append(want, m.GetMachineId())
				}
			}
			ctx, token := auth.NewContext(context.Background(), &auth.Caller{Identity: id}), ""
			for {
				r, err := s.ListMachines(ctx, &holdfastv1.ListMachinesRequest{Filter: text, PageSize: 3, PageToken: token})
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range r.GetMachines() {
					got = append(got, m.GetMachineId())
				}
				if token = r.GetNextPageToken(); token == "" {
					break
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q as %v (-want +got):\n%s", text, id, diff)
			}
		}
	}
}

// A page must cost as much as its machines: records excluded by an index or by their text
// are not decoded.
func TestListsDoNotDecodeTheFleet(t *testing.T) {
	n := foundFleet(t)
	for text, want := range map[string]int{
		"rack=r1": 10, "rack=none": 0, "labels.env=prod AND phase=RMA": 0, "serial=*none*": 0, "effective_state=RMA": 0,
		"rack=r1 AND labels.env=prod": 0, "": 40, "power=OFF": 5, "power=OFF AND rack=r2": 2,
	} {
		f, err := request.Filter(machineFilter, text)
		if err != nil {
			t.Fatal(err)
		}
		visited := 0
		for range n.Peer.View().FindMachines(machineQuery(f, &holdfastv1.Identity{Role: holdfastv1.Role_ADMIN}), "") {
			visited++
		}
		if visited != want {
			t.Errorf("%q visits %d machines, want %d", text, visited, want)
		}
	}
}

// Every field with facets that a schema allows in comparisons must exist.
func TestFacetsAreFieldsOfTheFilter(t *testing.T) {
	for _, path := range []string{"spec.pool", "spec.rack", "spec.location", "spec.provider", "spec.customer_id",
		"spec.target_cluster_ref"} {
		f, err := request.Filter(machineFilter, strings.TrimPrefix(path, "spec.")+"=x")
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if terms, ok := f.Terms(fsm.MachineFacet); !ok || terms.Path != path {
			t.Errorf("%s: terms %v, %v", path, terms, ok)
		}
	}
}

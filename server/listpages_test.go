package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
	"github.com/holdfast-metal/holdfast/server/internal/registry"
)

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var refusal *fsm.Error
	if !errors.As(err, &refusal) || len(refusal.Fields) != 1 || refusal.Fields[0].Field != field {
		t.Errorf("got %v, want %s refused", err, field)
	}
}

// TestEveryListHasPages checks that every list is paged, in the same way.
func TestEveryListHasPages(t *testing.T) {
	lists := 0
	protoregistry.GlobalFiles.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		for i := range fd.Services().Len() {
			sd := fd.Services().Get(i)
			for j := range sd.Methods().Len() {
				md := sd.Methods().Get(j)
				if !strings.HasPrefix(string(sd.FullName()), "holdfast.v1.") || !strings.HasPrefix(string(md.Name()), "List") {
					continue
				}
				lists++
				in, out := md.Input().Fields(), md.Output().Fields()
				for _, f := range []struct {
					fields protoreflect.FieldDescriptors
					name   protoreflect.Name
					kind   protoreflect.Kind
				}{{in, "page_size", protoreflect.Int32Kind}, {in, "page_token", protoreflect.StringKind},
					{out, "next_page_token", protoreflect.StringKind}} {
					if d := f.fields.ByName(f.name); d == nil || d.Kind() != f.kind {
						t.Errorf("%s has no %s of kind %v", md.FullName(), f.name, f.kind)
					}
				}
			}
		}
		return true
	})
	if lists < 12 {
		t.Errorf("there are %d lists, want 12 at least: this proves little", lists)
	}
}

// manyAgents returns machines m-00 to m-29, alternately in the pools a and b. All of them
// are ready except every seventh.
func manyAgents(t *testing.T) (*nodetest.Node, *registry.Agents) {
	t.Helper()
	n := nodetest.New()
	for _, pool := range []string{"a", "b"} {
		n.Do(t, &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: pool}})
	}
	for i := range 30 {
		id, pool := fmt.Sprintf("m-%02d", i), []string{"a", "b"}[i%2]
		n.Do(t, &internalv1.RegisterAgent{TtlMs: 60_000, Agent: &holdfastv1.RegisterAgentRequest{MachineId: id,
			PoolName: pool, ProviderName: []string{"x", "y", "z"}[i%3]}})
		if i%7 == 0 {
			continue
		}
		n.Do(t, &internalv1.CheckpointLeases{ClockMs: 1000, Leases: []*internalv1.SeenLease{{SeenMs: 1000,
			Renewal: &internalv1.Renewal{Lease: &internalv1.LeaseRef{Kind: internalv1.LeaseRef_MACHINE, Id: id}}}}})
	}
	return n, registry.NewAgents(New(Config{}, n, n.Peer, testProviders()).peer, 0)
}

func TestAgentMachinePages(t *testing.T) {
	_, s := manyAgents(t)
	want := func(pool, provider int) []string {
		var all []string
		for i := range 30 {
			if i%7 != 0 && (pool < 0 || i%2 == pool) && (provider < 0 || i%3 == provider) {
				all = append(all, fmt.Sprintf("m-%02d", i))
			}
		}
		return all
	}
	for _, tt := range []struct {
		name  string
		ask   *holdfastv1.ListAgentMachinesRequest
		want  []string
		pages int
	}{
		{"all at once", &holdfastv1.ListAgentMachinesRequest{}, want(-1, -1), 1},
		{"one by one", &holdfastv1.ListAgentMachinesRequest{PageSize: 1}, want(-1, -1), 25},
		{"a pool", &holdfastv1.ListAgentMachinesRequest{PageSize: 5, PoolName: "a"}, want(0, -1), 3},
		{"a provider", &holdfastv1.ListAgentMachinesRequest{PageSize: 5, ProviderName: "y"}, want(-1, 1), 2},
		{"both", &holdfastv1.ListAgentMachinesRequest{PageSize: 2, PoolName: "b", ProviderName: "z"}, want(1, 2), 3},
		{"none", &holdfastv1.ListAgentMachinesRequest{PoolName: "c"}, nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			pages := 0
			for {
				resp, err := s.ListAgentMachines(t.Context(), tt.ask)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range resp.GetMachines() {
					got = append(got, m.GetMachineId())
				}
				pages++
				if tt.ask.PageToken = resp.GetNextPageToken(); tt.ask.GetPageToken() == "" {
					break
				}
			}
			if !slices.Equal(got, tt.want) || pages != tt.pages {
				t.Errorf("got %v in %d pages, want %v in %d", got, pages, tt.want, tt.pages)
			}
		})
	}
	_, err := s.ListAgentMachines(t.Context(), &holdfastv1.ListAgentMachinesRequest{PageSize: -1})
	wantField(t, err, "page_size")
	first, err := s.ListAgentMachines(t.Context(), &holdfastv1.ListAgentMachinesRequest{PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.ListAgentMachines(t.Context(), &holdfastv1.ListAgentMachinesRequest{PageSize: 1, PoolName: "a",
		PageToken: first.GetNextPageToken()})
	wantField(t, err, "page_token")
}

// TestAgentsSeeOnlyTheirMachine checks the lists of machine agents and pool agents,
// on every page.
func TestAgentsSeeOnlyTheirMachine(t *testing.T) {
	_, s := manyAgents(t)
	for _, tt := range []struct {
		name string
		id   *holdfastv1.Identity
		ask  *holdfastv1.ListAgentMachinesRequest
		want int
	}{
		{"its own", &holdfastv1.Identity{Role: holdfastv1.Role_AGENT, MachineId: "m-02"},
			&holdfastv1.ListAgentMachinesRequest{}, 1},
		{"its own in its pool", &holdfastv1.Identity{Role: holdfastv1.Role_AGENT, MachineId: "m-02"},
			&holdfastv1.ListAgentMachinesRequest{PoolName: "a"}, 1},
		{"of another pool", &holdfastv1.Identity{Role: holdfastv1.Role_AGENT, MachineId: "m-02"},
			&holdfastv1.ListAgentMachinesRequest{PoolName: "b"}, 0},
		{"not ready", &holdfastv1.Identity{Role: holdfastv1.Role_AGENT, MachineId: "m-07"},
			&holdfastv1.ListAgentMachinesRequest{}, 0},
		{"all agents of a pool", &holdfastv1.Identity{Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"a"}},
			&holdfastv1.ListAgentMachinesRequest{}, 12},
		{"a foreign pool", &holdfastv1.Identity{Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"a"}},
			&holdfastv1.ListAgentMachinesRequest{PoolName: "b"}, 0},
	} {
		resp, err := s.ListAgentMachines(auth.NewContext(t.Context(), &auth.Caller{Identity: tt.id}), tt.ask)
		if err != nil || len(resp.GetMachines()) != tt.want || resp.GetNextPageToken() != "" {
			t.Errorf("%s: got %v, %v, want %d", tt.name, resp, err, tt.want)
		}
	}
}

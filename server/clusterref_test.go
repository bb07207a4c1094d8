package server

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/internal/fleet"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// joins is a provider that joins registered clusters.
type joins struct{ able }

func (joins) JoinsRegistered() bool { return true }

// TestUnknownCluster checks that a cluster that is not registered is refused when it is named, but
// only for providers that join registered clusters.
func TestUnknownCluster(t *testing.T) {
	const field = "spec.target_cluster_ref"
	type call = func(*Server, *fleet.Machines) error
	ctx := testCtx(t)
	start := func(machine, kind, ref string) call {
		return func(s *Server, _ *fleet.Machines) error {
			_, err := s.runs.StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: "r", MachineId: machine, Type: kind,
				Params: map[string]string{"cluster_ref": ref}})
			return err
		}
	}
	register := func(s *holdfastv1.MachineSpec) call {
		return func(_ *Server, c *fleet.Machines) error {
			_, err := c.RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{
				Machine: &holdfastv1.Machine{MachineId: "new", Spec: s}})
			return err
		}
	}
	updateBy := func(ctx context.Context, id, ref string, paths ...string) call {
		return func(_ *Server, c *fleet.Machines) error {
			_, err := c.UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{Machine: &holdfastv1.Machine{MachineId: id,
				Spec: &holdfastv1.MachineSpec{TargetClusterRef: ref}}, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
			return err
		}
	}
	update := func(id, ref string, paths ...string) call { return updateBy(ctx, id, ref, paths...) }
	move := func(id, provider string) call {
		return func(_ *Server, c *fleet.Machines) error {
			_, err := c.UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{Machine: &holdfastv1.Machine{MachineId: id,
				Spec: &holdfastv1.MachineSpec{TargetClusterRef: "prdo", Provider: provider}}})
			return err
		}
	}
	const typo = `cluster "prdo" is not registered: did you mean "prod"?: see: holdfast cluster-ref list`
	for _, tt := range []struct {
		name string
		do   call
		want string // in the refusal; empty: none
	}{
		{"run: registered", start("m-joins", "REPAVE", "prod"), ""},
		{"run: a typo", start("m-joins", "REPAVE", "prdo"), typo},
		{"run: of another pool", start("m-joins", "REPAVE", "gpux"), `"gpux" is not registered: see`},
		{"run: the provider has its own", start("m-own", "REPAVE", "prdo"), ""},
		{"run: a drain needs none", start("m-joins", "RMA", "prdo"), ""},
		{"register: registered", register(&holdfastv1.MachineSpec{Provider: "joins", TargetClusterRef: "prod"}), ""},
		{"register: a typo", register(&holdfastv1.MachineSpec{Provider: "joins", TargetClusterRef: "prdo"}), typo},
		{"register: in the pool of the cluster",
			register(&holdfastv1.MachineSpec{Provider: "joins", TargetClusterRef: "gpux", Pool: "gpu"}), `did you mean "gpu1"?`},
		{"register: the provider has its own", register(&holdfastv1.MachineSpec{Provider: "own", TargetClusterRef: "x"}), ""},
		{"update: a typo", update("m-joins", "prdo", field), typo},
		{"update: keeps its own", update("m-joins", "gone", field), ""},
		{"update: another field", update("m-joins", "prdo", "spec.rack"), ""},
		{"update: the provider has its own", update("m-own", "prdo", field), ""},
		{"update: the whole spec, without a provider", update("m-own", "prdo", "spec"), ""},
		{"update: with the provider", move("m-own", "joins"), typo},
		{"update: to a provider that has its own", move("m-joins", "own"), ""},
		{"scope: a typo", updateBy(scopedTo("gpu"), "m-gpu", "prdo", field), `"prdo" is not limited to your pools`},
		{"scope: of all pools", updateBy(scopedTo("gpu"), "m-gpu", "prod", field), `"prod" is not limited to your pools`},
		{"scope: of the pool", updateBy(scopedTo("gpu"), "m-gpu", "gpu1", field), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := nodetest.New()
			for _, p := range []string{"joins", "own"} {
				n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-" + p,
					Spec: &holdfastv1.MachineSpec{Provider: p, TargetClusterRef: "gone"}}})
			}
			n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-gpu",
				Spec: &holdfastv1.MachineSpec{Provider: "joins", Pool: "gpu"}}})
			n.Do(t, &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "gpu"}})
			for name, pools := range map[string][]string{"prod": nil, "gpu1": {"gpu"}} {
				n.Do(t, &internalv1.PutSecret{Secret: &internalv1.StoredSecret{Secret: &holdfastv1.Secret{
					Name: "cluster/" + name, Type: "join", Pools: pools, Keys: []string{"kubeconfig"}, Version: 1},
					Sealed: &internalv1.Sealed{KeyId: "k", Nonce: []byte("n"), Ciphertext: []byte("c")}}})
			}
			set := providers.SetOf(map[string]providers.Provider{"joins": joins{}, "own": able{}})
			s := New(Config{}, n, n.Peer, set)
			err := tt.do(s, fleet.NewMachines(s.peer, set))
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v, want success", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

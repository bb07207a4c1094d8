package server

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/fleet"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// TestUnknownProvider checks that a machine gets no provider that is not configured, and that a
// machine that has one can still be edited.
func TestUnknownProvider(t *testing.T) {
	register := func(id string, s *holdfastv1.MachineSpec) func(context.Context, *clients) error {
		return func(ctx context.Context, c *clients) error {
			_, err := c.RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{
				Machine: &holdfastv1.Machine{MachineId: id, Spec: s}})
			return err
		}
	}
	update := func(s *holdfastv1.MachineSpec, paths ...string) func(context.Context, *clients) error {
		return func(ctx context.Context, c *clients) error {
			_, err := c.UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{
				Machine: &holdfastv1.Machine{MachineId: "old", Spec: s}, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
			return err
		}
	}
	of := func(provider string) *holdfastv1.MachineSpec {
		return &holdfastv1.MachineSpec{Provider: provider, Rack: "r9"}
	}
	const list = ": configured: button, fake"
	for _, tt := range []struct {
		name string
		do   func(context.Context, *clients) error
		want string // in the refusal; empty: none
	}{
		{"configured", register("new", of("fake")), ""},
		{"none", register("new", of("")), ""},
		{"a typo", register("new", of("fkae")), `machine.spec.provider: "fkae" is not configured: did you mean "fake"?` + list},
		{"another name", register("new", of("dc-1")), `machine.spec.provider: "dc-1" is not configured` + list},
		{"a known machine keeps its own", register("old", of("gone")), ""},
		{"a known machine gets another", register("old", of("dc-1")), `"dc-1" is not configured`},
		{"update keeps its own", update(of("gone")), ""},
		{"update of the spec", update(of("dc-1"), "spec"), `"dc-1" is not configured`},
		{"update of everything", update(of("dc-1"), "*"), `"dc-1" is not configured`},
		{"update of the provider", update(of(" fkae "), "spec.provider"), `"fkae" is not configured: did you mean "fake"?`},
		{"update of another field", update(of("dc-1"), "spec.rack"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := nodetest.New()
			_, c := serve(t, n, Config{})
			n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "old", Spec: of("gone")}})
			err := tt.do(testCtx(t), c)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v, want success", err)
			case tt.want != "" && (status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want INVALID_ARGUMENT with %q", err, tt.want)
			}
		})
	}
}

// TestHiddenProvider checks that a caller cannot find out the provider of a machine of other pools.
func TestHiddenProvider(t *testing.T) {
	n := nodetest.New()
	n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-b",
		Spec: &holdfastv1.MachineSpec{Pool: "b", Provider: "gone"}}})
	s := New(Config{}, n, n.Peer, testProviders())
	ms := fleet.NewMachines(s.peer, s.providers)
	for pool, want := range map[string]bool{"a": false, "b": true} {
		_, err := ms.UpdateMachine(scopedTo(pool), &holdfastv1.UpdateMachineRequest{
			Machine:    &holdfastv1.Machine{MachineId: "m-b", Spec: &holdfastv1.MachineSpec{Provider: "gone"}},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"spec.provider"}}})
		if want && err != nil || !want && (err == nil || !strings.Contains(err.Error(), `"gone" is not configured`)) {
			t.Errorf("update by a caller of pool %s: got %v, want success %v", pool, err, want)
		}
	}
}

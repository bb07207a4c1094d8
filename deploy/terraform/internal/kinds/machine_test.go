package kinds

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/values"
	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// liveMachine returns a machine with each field that operators set.
func liveMachine() *holdfastv1.Machine {
	spec := &holdfastv1.MachineSpec{}
	for f := range machinefield.All() {
		if f.List() {
			f.SetTexts(spec, []string{f.Name()})
		} else {
			f.Set(spec, f.Name())
		}
	}
	spec.MacAddresses, spec.Rack, spec.Pool = []string{"aa:bb:cc:00:00:01"}, "r7", "gpu"
	spec.SshHostKeys = []string{"ssh-ed25519 AAAA"}
	return &holdfastv1.Machine{MachineId: "m-1", Labels: map[string]string{"env": "prod"}, Spec: spec}
}

// TestEveryFieldOfAMachine checks that an import reads each field of a spec, and that a create
// sends it.
func TestEveryFieldOfAMachine(t *testing.T) {
	live := liveMachine()
	fields := live.GetSpec().ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); !live.GetSpec().ProtoReflect().Has(fd) {
			t.Fatalf("spec.%s is not set in this test: is it an attribute of holdfast_machine?", fd.Name())
		}
	}
	m := emptyMachine("m-1")
	m.fill(live, true)
	if diff := cmp.Diff(live, m.proto(), protocmp.Transform()); diff != "" {
		t.Errorf("machine (-want +got):\n%s", diff)
	}
}

func TestOmittedFieldsAreNotManaged(t *testing.T) {
	m := emptyMachine("m-1")
	m.Rack = types.StringValue("r6")
	m.fill(liveMachine(), false)
	want := &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{Rack: "r7"}}
	if diff := cmp.Diff(want, m.proto(), protocmp.Transform()); diff != "" {
		t.Errorf("machine (-want +got):\n%s", diff)
	}
}

func TestChangesOfAMachine(t *testing.T) {
	was := emptyMachine("m-1")
	was.fill(liveMachine(), true)
	for _, tt := range []struct {
		name   string
		change func(*machine)
		want   []string
	}{
		{"none", func(*machine) {}, nil},
		{"force_delete", func(m *machine) { m.ForceDelete = types.BoolValue(true) }, nil},
		{"another rack", func(m *machine) { m.Rack = types.StringValue("r8") }, []string{"spec.rack"}},
		{"no rack", func(m *machine) { m.Rack = types.StringNull() }, []string{"spec.rack"}},
		{"provider", func(m *machine) { m.ProviderName = types.StringValue("x") }, []string{"spec.provider"}},
		{"addresses", func(m *machine) { m.MACAddresses = values.Set(nil) }, []string{"spec.mac_addresses"}},
		{"labels", func(m *machine) { m.Labels = values.Labels(map[string]string{"a/b.c": "1"}) },
			[]string{"labels.a/b.c", "labels.env"}},
	} {
		m := was
		tt.change(&m)
		if diff := cmp.Diff(tt.want, m.changes(&was)); diff != "" {
			t.Errorf("%s: paths (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestPoolKeepsUnmanagedFields checks the declaration that replaces the one of the server.
func TestPoolKeepsUnmanagedFields(t *testing.T) {
	live := &holdfastv1.Pool{PoolId: "gpu", Provider: "dc", GpuType: "H100",
		Labels: map[string]string{"site": "fra1", "team": "ml"}}
	empty := types.MapNull(types.StringType)
	for _, tt := range []struct {
		name     string
		was, now pool
		want     *holdfastv1.Pool
	}{
		{"nothing is managed", pool{Labels: empty}, pool{Labels: empty}, live},
		{"a field is set", pool{Labels: empty}, pool{Labels: empty, GPUType: types.StringValue("H200")},
			&holdfastv1.Pool{PoolId: "gpu", Provider: "dc", GpuType: "H200", Labels: live.GetLabels()}},
		{"a field is no longer set", pool{Labels: empty, GPUType: types.StringValue("H100")}, pool{Labels: empty},
			&holdfastv1.Pool{PoolId: "gpu", Provider: "dc", Labels: live.GetLabels()}},
		{"a label is removed", pool{Labels: values.Labels(map[string]string{"site": "fra1"})}, pool{Labels: empty},
			&holdfastv1.Pool{PoolId: "gpu", Provider: "dc", GpuType: "H100", Labels: map[string]string{"team": "ml"}}},
	} {
		tt.now.PoolID = types.StringValue("gpu")
		tt.want.Declared = true
		if diff := cmp.Diff(tt.want, tt.now.proto(live, &tt.was), protocmp.Transform()); diff != "" {
			t.Errorf("%s: pool (-want +got):\n%s", tt.name, diff)
		}
	}
}

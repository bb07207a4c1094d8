package machine

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestEveryFieldHasAFlagAndAColumn checks that the flag of each declared field sets it and names it
// in the mask, and that tables show the fields that have a column.
func TestEveryFieldHasAFlagAndAColumn(t *testing.T) {
	var (
		spec  specFlags
		flags = pflag.NewFlagSet("machine", pflag.ContinueOnError)
		want  = &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{}}
		paths []string
		shown []string
	)
	spec.register(flags)
	for f := range machinefield.All() {
		if err := flags.Set(f.GetFlag(), "a-"+f.GetFlag()); err != nil {
			t.Fatal(err)
		}
		if f.List() {
			f.SetTexts(want.GetSpec(), []string{"a-" + f.GetFlag()})
		} else {
			f.Set(want.GetSpec(), "a-"+f.GetFlag())
		}
		paths = append(paths, f.Path())
		if f.GetColumn() != "" {
			shown = append(shown, "a-"+f.GetFlag())
		}
	}
	got, err := spec.machine("m-1", false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("machine (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(paths, spec.paths(flags)); diff != "" {
		t.Errorf("mask (-want +got):\n%s", diff)
	}
	k := kinds.Machine()
	row := k.Row(got, want.GetCreatedAt().AsTime())
	if len(row) != len(k.Header)+len(k.Wide) {
		t.Errorf("row: got %d cells, want %d", len(row), len(k.Header)+len(k.Wide))
	}
	for _, text := range shown {
		if !slices.Contains(row, any(text)) {
			t.Errorf("row: %s is not in %v", text, row)
		}
	}
}

package table_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestFacetPrefix(t *testing.T) {
	machines := table.New(schema.Machines())
	for id, env := range map[string]string{
		"m-1": "prod-2", "m-2": "prod-1", "m-3": "lab", "m-4": "prod-1", "m-5": "prodigy",
	} {
		machines.Put(&holdfastv1.Machine{MachineId: id, Labels: map[string]string{"env": env, "envy": "prod-1"}})
	}
	for _, tt := range []struct {
		path, prefix string
		most         int
		want         []string
	}{
		{"labels.env", "prod-", 9, []string{"m-2", "m-4", "m-1"}},
		{"labels.env", "prod-", 2, []string{"m-2", "m-4"}},
		{"labels.env", "", 9, []string{"m-3", "m-2", "m-4", "m-1", "m-5"}},
		{"labels.env", "x", 9, nil},
		{"labels.en", "prod", 9, nil},
	} {
		var got []string
		for m := range machines.FacetPrefix(tt.path, tt.prefix) {
			if got = append(got, m.GetMachineId()); len(got) == tt.most {
				break
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s %q, at most %d (-want +got):\n%s", tt.path, tt.prefix, tt.most, diff)
		}
	}
}

package fsm

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each operation of the log has one declaration.
func TestCommandsAreDeclared(t *testing.T) {
	var want, got []string
	set := newCommandSet()
	for i := range set.op.Fields().Len() {
		want = append(want, string(set.op.Fields().Get(i).Message().FullName()))
	}
	for _, c := range commandList() {
		got = append(got, string(c.message))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("declared commands (-want +got):\n%s", diff)
	}
}

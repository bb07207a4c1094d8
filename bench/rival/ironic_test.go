package rival

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestIronicTakes checks that a node is deployed once.
func TestIronicTakes(t *testing.T) {
	i := &Ironic{nodes: []string{"a", "b"}}
	var got []string
	for range 3 {
		id, _ := i.take() // the third fails: no node left
		got = append(got, id)
	}
	if diff := cmp.Diff([]string{"a", "b", ""}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

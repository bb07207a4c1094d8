package workload

import (
	"testing"

	"github.com/holdfast-metal/holdfast/test/overlay"
)

// TestShortLeaseEdits checks that the edits match the product.
func TestShortLeaseEdits(t *testing.T) {
	root, err := overlay.Root(".")
	if err != nil {
		t.Fatal(err)
	}
	o := overlay.New(root)
	for _, e := range ShortLeaseEdits() {
		if err := o.Patch(e.File, e.Before, e.After); err != nil {
			t.Error(err)
		}
	}
}

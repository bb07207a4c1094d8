package task

import (
	"fmt"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
)

// TestValuesAreLimited checks that no device reports more values than an attempt may record.
func TestValuesAreLimited(t *testing.T) {
	seen := map[string]string{}
	for i := range fsm.MaxEvidence + 5 {
		seen[fmt.Sprintf("disk-%04d", i)] = "sealed"
	}
	got := Values(seen)
	if len(got) != fsm.MaxEvidence || got["left_out"] != "6" || got["disk-0254"] == "" || got["disk-0255"] != "" {
		t.Errorf("got %d values, left out %q", len(got), got["left_out"])
	}
}

package robustness

import (
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

func TestFlat(t *testing.T) {
	const mib = 1 << 20
	first := harness.Size{Goroutines: 100, Heap: 40 * mib, State: 2 * mib, Driver: 60}
	for name, tt := range map[string]struct {
		then harness.Size
		want string
	}{
		"unchanged":   {first, ""},
		"grown state": {harness.Size{Goroutines: 120, Heap: 200 * mib, State: 20 * mib, Driver: 60}, ""},
		"grown heap":  {harness.Size{Goroutines: 100, Heap: 200 * mib, State: 2 * mib, Driver: 60}, "heap grows"},
		"a peer's goroutines": {harness.Size{Goroutines: 300, Heap: 40 * mib, State: 2 * mib, Driver: 60},
			"goroutines leak"},
		"grown driver": {harness.Size{Goroutines: 100, Heap: 40 * mib, State: 2 * mib, Driver: 600},
			"driver leak"},
	} {
		// A peer may have been killed since, so growth counts in the middle too.
		err := flat([]harness.Size{first, tt.then, first})
		if got := err != nil && tt.want != "" && strings.Contains(err.Error(), tt.want); got != (tt.want != "") ||
			tt.want == "" && err != nil {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

package work

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxWork bounds the executed blocks of code of one command. A wave of 5,000 machines executes 2.5
// million, which takes 12 to 19 ms: BenchmarkLargestCommands in fsm reports the times.
const maxWork = 4_000_000

// TestWorkOfCommands applies the largest commands to a filled state and bounds the work of each. It
// counts in the FSM, its tables and the packages that loop for it, so that no loop escapes.
func TestWorkOfCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the state machine with counters")
	}
	bin := filepath.Join(t.TempDir(), "countwork")
	build := exec.CommandContext(t.Context(), "go", "build", "-covermode=atomic", "-o", bin,
		"-coverpkg=github.com/holdfast-metal/holdfast/fsm/...,github.com/tidwall/btree,slices,maps,sort,strings,./countwork",
		"./countwork")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	count := exec.CommandContext(t.Context(), bin)
	var notes bytes.Buffer
	count.Stderr = &notes
	out, err := count.Output()
	if err != nil {
		t.Fatalf("count: %v\n%s", err, notes.Bytes())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	total := 0
	for _, line := range lines {
		var work, elements int
		var name string
		if _, err := fmt.Sscanf(line, "%d %d %s", &work, &elements, &name); err != nil {
			t.Fatalf("read %q: %v", line, err)
		}
		total += work
		if work > maxWork {
			t.Errorf("Apply executes %d blocks of code with %d elements of %s, want at most %d", work, elements, name, maxWork)
		}
		if work > maxWork/4 {
			t.Logf("%d blocks with %d elements of %s", work, elements, name)
		}
	}
	if len(lines) < 100 || total == 0 {
		t.Errorf("counted %d blocks of %d commands: they were not counted", total, len(lines))
	}
}

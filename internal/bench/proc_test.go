package bench

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

// TestFamily: a process and those it has started, and no others.
func TestFamily(t *testing.T) {
	child := exec.CommandContext(t.Context(), "sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	ours, err := family(os.Getpid())
	if err != nil || !slices.Contains(ours, os.Getpid()) || !slices.Contains(ours, child.Process.Pid) {
		t.Errorf("got %v, %v, want %d and %d", ours, err, os.Getpid(), child.Process.Pid)
	}
	theirs, err := family(child.Process.Pid)
	if err != nil || !slices.Equal(theirs, []int{child.Process.Pid}) {
		t.Errorf("got %v, %v, want %d only", theirs, err, child.Process.Pid)
	}
}

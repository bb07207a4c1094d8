package proc

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// TestFamily checks that a family is a process and its descendants.
func TestFamily(t *testing.T) {
	child := exec.CommandContext(t.Context(), "sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	ours, err := Family(os.Getpid())
	if err != nil || !slices.Contains(ours, os.Getpid()) || !slices.Contains(ours, child.Process.Pid) {
		t.Errorf("got %v, %v, want %d and %d", ours, err, os.Getpid(), child.Process.Pid)
	}
	theirs, err := Family(child.Process.Pid)
	if err != nil || !slices.Equal(theirs, []int{child.Process.Pid}) {
		t.Errorf("got %v, %v, want %d only", theirs, err, child.Process.Pid)
	}
}

func TestParseProc(t *testing.T) {
	// proc(5): the name may contain spaces and brackets; utime and stime are numbers 14 and 15.
	const stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 7 8 20 0 9 0 12345 1000 200 18446744073709551615"
	if got, err := parseStat([]byte(stat)); err != nil || got != 3*time.Second {
		t.Errorf("got %v, %v, want 3s", got, err)
	}
	for _, bad := range []string{"", "42 (x) S 1 2", "42 (x) S 1 42 42 0 -1 4194560 100 0 0 0 a b"} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q: got %v, want an error", bad, got)
		}
	}
	if got, err := parseHeld("Name:\tx\nVmHWM:\t  9999 kB\nRssAnon:\t   2560 kB\n"); err != nil || got != 2.5 {
		t.Errorf("got %v, %v, want 2.5", got, err)
	}
	if got, err := parseHeld("Name:\tx\n"); err == nil {
		t.Errorf("got %v, want an error", got)
	}
}

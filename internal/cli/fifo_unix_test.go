//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
)

// TestFIFO checks that a command which reads a FIFO says that it waits for a writer, waits no
// longer than --timeout, and reads what a late writer writes.
func TestFIFO(t *testing.T) {
	f := startCluster(t, fixture())
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"apply", "-f", name}, {"machine", "register", "-f", name},
		{"secret", "put", "x", "--type", "bmc", "--from-file", "password=" + name}, {"audit", "verify", "-f", name},
		{"operator", "snapshot", "inspect", name}, {"operator", "snapshot", "restore", name, "--yes"}} {
		var c command
		c.wantCode(t, c.run(t, f, append(args, "--timeout", "50ms")...), app.ExitTimeout)
		wantIn(t, strings.Join(args, " "), c.err.String(), "no other process writes into it: give it more time")
	}
	for _, file := range []string{name, t.TempDir()} {
		var c command
		c.wantCode(t, c.run(t, f, "image", "add", "x", "--disk", file), ExitUsage)
		wantIn(t, "image add", c.err.String(), file+" is not a regular file")
	}
	var c command
	done := make(chan int, 1)
	go func() { done <- c.run(t, f, "apply", "-f", name, "--dry-run") }()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(c.err.String(), "waiting for another process"); {
		if time.Now().After(deadline) {
			t.Fatalf("got no note: %q", c.err.String())
		}
		time.Sleep(10 * time.Millisecond) // sleep: between polls of the other goroutine
	}
	if err := os.WriteFile(name, []byte("pool_id: late\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	<-done // a dry run that would create something
	wantIn(t, "a late writer", c.out.String(), "pool late would be created")
}

//go:build unix

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
)

// TestFIFO checks that a command which reads a FIFO says that it waits for a writer, waits no
// longer than --timeout, and reads what a late writer writes.
func TestFIFO(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"apply", "-f", name}, {"machine", "register", "-f", name},
		{"secret", "put", "x", "--type", "bmc", "--from-file", "password=" + name}, {"audit", "verify", "-f", name},
		{"operator", "snapshot", "inspect", name}, {"operator", "snapshot", "restore", name, "--yes"}} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, append(args, "--timeout", "50ms")...), app.ExitTimeout)
		clitest.WantIn(t, strings.Join(args, " "), c.Err.String(), "no other process writes into it: give it more time")
	}
	for _, file := range []string{name, t.TempDir()} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, "image", "add", "x", "--disk", file), app.ExitUsage)
		clitest.WantIn(t, "image add", c.Err.String(), file+" is read twice and is not a regular file")
	}
	var c clitest.Command
	done := make(chan int, 1)
	go func() { done <- c.Run(t, f, "apply", "-f", name, "--dry-run") }()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(c.Err.String(), "waiting for another process"); {
		if time.Now().After(deadline) {
			t.Fatalf("got no note: %q", c.Err.String())
		}
		time.Sleep(10 * time.Millisecond) // sleep: between polls of the other goroutine
	}
	if err := os.WriteFile(name, []byte("pool_id: late\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	<-done // a dry run that would create something
	clitest.WantIn(t, "a late writer", c.Out.String(), "pool late would be created")
}

package cli_test

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/internal/cli"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
)

// TestOutputIsCheckedFirst checks that a command which changes something refuses an unknown field
// of --output before it does anything: without arguments and without a server.
func TestOutputIsCheckedFirst(t *testing.T) {
	// Commands that only read, or print documents of any kind.
	reads := []string{"get", "history", "issues", "list", "list-peers", "logs", "providers", "raw", "stalled",
		"state", "status", "verify", "wait", "watch", "whoami", "why"}
	seen := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if c.Flags().Lookup("output") == nil || c.RunE == nil || slices.Contains(reads, c.Name()) {
			return
		}
		seen++
		if err := c.Flags().Set("output", "jsonpath={.nosuchfield}"); err != nil {
			t.Fatalf("%s: %v", c.CommandPath(), err)
		}
		defer func() {
			if p := recover(); p != nil { // it has used its arguments
				t.Errorf("%s: it runs before it has checked --output: %v", c.CommandPath(), p)
			}
		}()
		if err := c.RunE(c, nil); err == nil || !strings.Contains(err.Error(), `"nosuchfield"`) {
			t.Errorf("%s: got %v, want a refusal of the field", c.CommandPath(), err)
		}
	}
	walk(cli.Root(app.Streams{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}))
	if seen < 20 {
		t.Errorf("got %d commands, want more", seen)
	}
}

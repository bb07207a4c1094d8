package cli_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
)

// TestInterruptedCommandFails checks that a command with an end that is interrupted before it has
// failed, and prints no verdict on a partial result.
func TestInterruptedCommandFails(t *testing.T) {
	for _, tt := range []struct {
		args string
		none string // must not be in the output
		err  string
	}{
		{"audit verify", "VERIFIED", "error: read the audit trail: "},
		{"audit verify -o json", "whole", "error: read the audit trail: "},
		{"audit export", "", "error: export audit events: "},
		{"run logs run-789", "", "error: read log of run run-789: "},
	} {
		t.Run(tt.args, func(t *testing.T) {
			f := clitest.Fixture()
			f.Open, f.Endless = true, true
			clitest.Start(t, f)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := clitest.Command{Ctx: ctx}
			done := make(chan int)
			go func() { done <- c.Run(t, f, strings.Fields(tt.args)...) }()
			<-f.Watching
			cancel()
			c.WantCode(t, <-done, app.ExitError)
			clitest.WantIn(t, "stderr", c.Err.String(), tt.err, "interrupted")
			if tt.none != "" && strings.Contains(c.Out.String(), tt.none) {
				t.Errorf("got a verdict in stdout:\n%s", c.Out.String())
			}
		})
	}
}

// TestInterruptedInstallWatch checks that the install continues, and that no end is printed.
func TestInterruptedInstallWatch(t *testing.T) {
	for name, tt := range map[string]struct {
		args string
		want int
		err  string
	}{
		"interrupted": {"", app.ExitError, "watch install of m-slow: interrupted while it is at writing: it goes on"},
		"timeout": {" --timeout 1s", app.ExitTimeout,
			"watch install of m-slow: time is up while it is at writing: it goes on"},
	} {
		t.Run(name, func(t *testing.T) {
			f := clitest.Start(t, clitest.Fixture())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := clitest.Command{Ctx: ctx}
			done := make(chan int)
			go func() { done <- c.Run(t, f, strings.Fields("install watch m-slow --interval 1h"+tt.args)...) }()
			clitest.Eventually(t, "the stage", func() bool { return strings.Contains(c.Out.String(), "writing") })
			if tt.args == "" {
				cancel()
			}
			c.WantCode(t, <-done, tt.want)
			clitest.WantIn(t, "stderr", c.Err.String(), tt.err)
		})
	}
}

// TestTimeIsUpBeforeTheRunIsRead checks that the run continues, whether or not it was read in time.
func TestTimeIsUpBeforeTheRunIsRead(t *testing.T) {
	f := clitest.Fixture()
	f.Refuse = clitest.Always(status.Error(codes.DeadlineExceeded, "slow"))
	clitest.Start(t, f)
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "run", "wait", "run-789", "--timeout", "50ms"), app.ExitTimeout)
	want := "error: wait for run run-789: time is up after 50ms: it goes on: see: holdfast run watch run-789\n"
	if got := c.Err.String(); got != want {
		t.Errorf("got stderr %q, want %q", got, want)
	}
}

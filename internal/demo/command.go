package demo

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// options are the flags of the command.
type options struct {
	machines int
	exit     bool
	json     bool
	keepDir  bool
	dir      string
	timeout  time.Duration
}

const long = `Start three peers as three processes on loopback and a fleet of fake machines, repave all machines,
and kill the leader with SIGKILL in the middle. Every run still finishes. Then compare the record (the
effects of each attempt of each step) with the effects that the fake hardware counted.

The cluster stays up until Ctrl-C, so that you can explore it. With --exit the demo ends when the runs
have ended. It exits with 0 if every run succeeded, one leader was killed, and no effect on the hardware
was doubled or is missing; otherwise with 1.`

// maxMachines bounds the fleet, so that a demo ends within minutes.
const maxMachines = 5000

// Command returns the command "demo" (docs/operating.md).
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "demo", Short: "Watch three peers and a fleet of fake machines survive a dead leader",
		Long: long, Args: cobra.NoArgs,
		Example: `  holdfast demo
  holdfast demo --machines 200
  holdfast demo --machines 50 --exit --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.machines < 1 || o.machines > maxMachines {
				return fmt.Errorf("set --machines to a number from 1 to %d, not %d", maxMachines, o.machines)
			}
			// Without a handler, a write to a closed pipe would leave the files behind.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			if err := run(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
				return brokenError{err}
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&o.machines, "machines", 12, "number of fake `machines` to repave")
	fs.BoolVar(&o.exit, "exit", false, "exit when the runs have ended, with 0 if every check passed")
	fs.BoolVar(&o.json, "json", false, "write a report as JSON to standard output, and progress to standard error")
	fs.BoolVar(&o.keepDir, "keep-dir", false, "keep the peers' data and logs")
	fs.StringVar(&o.dir, "dir", "",
		"empty or new `directory` for the peers' data and logs; it is kept (default: a temporary one)")
	fs.DurationVar(&o.timeout, "timeout", 5*time.Minute, "`time` after which to give up if runs have not ended")
	return cmd
}

// brokenError is the error of a demo that failed a check or could not run.
type brokenError struct{ error }

// ExitCode returns 1, also for an error with a gRPC status, which has another exit code elsewhere.
func (brokenError) ExitCode() int { return 1 }

func (e brokenError) Unwrap() error { return e.error }

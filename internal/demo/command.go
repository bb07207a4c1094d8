package demo

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// options is what the demo can be told.
type options struct {
	machines int
	exit     bool
	json     bool
	keepDir  bool
	dir      string
	timeout  time.Duration
}

const long = `Start three peers as three processes on loopback and a fleet of fake machines, repave all machines,
and kill the leader with SIGKILL in the middle. Every run finishes all the same. Then the record (what
each attempt of each step says that it did) is held against what the fake hardware saw.

The cluster stays up to be looked at until Ctrl-C. With --exit the demo ends at once: with 0 if every run
succeeded, one leader was killed, and no effect on the hardware was doubled or is missing; else with 1.`

const example = `  holdfast demo
  holdfast demo --machines 200
  holdfast demo --machines 50 --exit --json`

// maxMachines is as many as one process can play in a time that somebody watches.
const maxMachines = 5000

// Command returns the command "demo" (docs/operating.md).
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "demo", Short: "Watch three peers and a fleet of fake machines survive a dead leader",
		Long: long, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.machines < 1 || o.machines > maxMachines {
				return fmt.Errorf("set --machines to a number from 1 to %d, not %d", maxMachines, o.machines)
			}
			// With a handler, writing to a pipe that was closed is an error like any other, and
			// what was made is removed.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			err := run(cmd.Context(), o, newConsole(cmd.OutOrStdout(), cmd.ErrOrStderr(), o.json, os.Getenv))
			if err != nil {
				err = brokenError{err}
			}
			return err
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&o.machines, "machines", 12, "how many fake `machines` to repave")
	fs.BoolVar(&o.exit, "exit", false, "leave when the runs have ended; the exit code says whether all is as promised")
	fs.BoolVar(&o.json, "json", false, "write a report as JSON to standard output, and progress to standard error")
	fs.BoolVar(&o.keepDir, "keep-dir", false, "keep the peers' data and logs")
	fs.StringVar(&o.dir, "dir", "",
		"empty or new `directory` for the peers' data and logs; it is kept (default: a temporary one)")
	fs.DurationVar(&o.timeout, "timeout", 5*time.Minute, "give up when the runs have not ended after that `time`")
	return cmd
}

// brokenError is a demo that did not keep its promise.
type brokenError struct{ error }

// ExitCode is 1 whatever the reason, also where a gRPC status would say otherwise.
func (brokenError) ExitCode() int { return 1 }

func (e brokenError) Unwrap() error { return e.error }

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// waitFlag is --wait[=10m].
type waitFlag struct {
	set   bool
	limit time.Duration // 0: none
}

// String implements pflag.Value.
func (w *waitFlag) String() string {
	if !w.set {
		return ""
	}
	return w.limit.String()
}

// Type implements pflag.Value.
func (w *waitFlag) Type() string { return "duration" }

const waitForRun = "wait until the run has ended, for at most this time if one is given (--wait=10m); show its " +
	"progress on standard error"

// forever is the value of --wait without an argument.
const forever = "forever"

// Set implements pflag.Value.
func (w *waitFlag) Set(v string) error {
	if v == forever {
		*w = waitFlag{set: true}
		return nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a time like 10m", v)
	}
	*w = waitFlag{set: true, limit: d}
	return nil
}

func (w *waitFlag) register(cmd *cobra.Command, usage string) {
	cmd.Flags().Var(w, "wait", usage)
	cmd.Flags().Lookup("wait").NoOptDefVal = forever
}

func runWait(a *app) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "wait RUN", Args: exactly("RUN"), ValidArgsFunction: a.complete(runKind().names),
		Short: "Wait until a run ends",
		Long: `Wait until a run ends and print it. The exit code is 0 if it succeeded, 5 if it failed or was canceled, and
6 if --timeout was set and passed. The run continues whatever happens to this command.`,
		Example: `  holdfast run wait run-789
  holdfast run wait run-789 --timeout 30m -o json`,
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			var r *holdfastv1.Run
			err := ofRun(ctx, a, c, args[0], func(id string) (err error) {
				r, err = awaitRun(ctx, a, c, id, 0)
				return err
			})
			return printAwaited(a, &o, r, err)
		}),
	}
	o.register(cmd)
	return cmd
}

// awaitRun waits for a run and shows its progress if standard error is a terminal. A run that did
// not succeed is returned with a *runError.
func awaitRun(ctx context.Context, a *app, c *client.Client, id string, limit time.Duration) (*holdfastv1.Run, error) {
	ctx, cancel := a.patience(ctx, limit)
	defer cancel()
	var last *holdfastv1.Run
	observe := func(ctx context.Context, f func(*holdfastv1.RunEvent) error) error {
		run, err := c.ObserveRun(ctx, id, f)
		last = run
		return err
	}
	var err error
	if a.terminal(a.Err) {
		err = drawRuns(ctx, a, a.Err, true, observe)
	} else {
		err = observe(ctx, func(*holdfastv1.RunEvent) error { return nil })
	}
	return last, waited(id, last, a.limit(limit), err)
}

// waited returns the error of an ended wait.
func waited(id string, run *holdfastv1.Run, limit time.Duration, err error) error {
	switch {
	case err == nil && run.GetPhase() == holdfastv1.Run_SUCCEEDED:
		return nil
	case err == nil:
		return &runError{run}
	case run == nil && status.Code(err) == codes.DeadlineExceeded:
		return &codeError{ExitTimeout,
			fmt.Sprintf("wait for run %s: time is up after %s: it goes on: see: holdfast run watch %s", id, limit, id)}
	case run == nil:
		return failed(err, "wait for run %s", id)
	case errors.Is(err, context.DeadlineExceeded):
		return &codeError{ExitTimeout,
			fmt.Sprintf("wait for run %s: it is still %s after %s: it goes on: see: holdfast run watch %s", id, run.GetPhase(),
				limit, id)}
	case errors.Is(err, context.Canceled):
		return &codeError{ExitError,
			fmt.Sprintf("wait for run %s: interrupted while it is %s: it goes on: see: holdfast run watch %s", id,
				run.GetPhase(), id)}
	}
	return failed(err, "wait for run %s", id)
}

// printAwaited prints the run that awaitRun returned, unless the wait was cut off, and returns the
// error of the wait.
func printAwaited(a *app, o *output, r *holdfastv1.Run, err error) error {
	if err != nil && !isRunError(err) {
		return err
	}
	return cmp.Or(printRun(a, o, r), err)
}

// isRunError reports whether a run ended without success, in contrast to a failed wait.
func isRunError(err error) bool {
	_, ok := errors.AsType[*runError](err)
	return ok
}

func printRun(a *app, o *output, r *holdfastv1.Run) error {
	return printOne(a, o, runKind(), r, runSteps(r, a.Now()))
}

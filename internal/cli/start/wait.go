package start

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// WaitFlag is --wait[=10m].
type WaitFlag struct {
	Given bool
	Limit time.Duration // 0: none
}

// String implements pflag.Value.
func (w *WaitFlag) String() string {
	if !w.Given {
		return ""
	}
	return w.Limit.String()
}

// Type implements pflag.Value.
func (w *WaitFlag) Type() string { return "duration" }

// WaitForRun is the help of --wait.
const WaitForRun = "wait until the run has ended, for at most this time if one is given (--wait=10m); show its " +
	"progress on standard error"

// forever is the value of --wait without an argument.
const forever = "forever"

// Set implements pflag.Value.
func (w *WaitFlag) Set(v string) error {
	if v == forever {
		*w = WaitFlag{Given: true}
		return nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a time like 10m", v)
	}
	*w = WaitFlag{Given: true, Limit: d}
	return nil
}

// Register adds the flag.
func (w *WaitFlag) Register(cmd *cobra.Command, usage string) {
	cmd.Flags().Var(w, "wait", usage)
	cmd.Flags().Lookup("wait").NoOptDefVal = forever
}

// Await waits for a run and shows its progress if standard error is a terminal. A run that did
// not succeed is returned with a *runError.
func Await(ctx context.Context, a *app.App, c *client.Client, id string, limit time.Duration) (*holdfastv1.Run,
	error) {
	ctx, cancel := a.Patience(ctx, limit)
	defer cancel()
	var last *holdfastv1.Run
	observe := func(ctx context.Context, f func(*holdfastv1.RunEvent) error) error {
		run, err := c.ObserveRun(ctx, id, f)
		last = run
		return err
	}
	var err error
	if a.Terminal(a.Err) {
		err = output.DrawRuns(ctx, a, a.Err, true, observe)
	} else {
		err = observe(ctx, func(*holdfastv1.RunEvent) error { return nil })
	}
	return last, WaitError(id, last, a.Limit(limit), err)
}

// WaitError returns the error of an ended wait.
func WaitError(id string, run *holdfastv1.Run, limit time.Duration, err error) error {
	switch {
	case err == nil && run.GetPhase() == holdfastv1.Run_SUCCEEDED:
		return nil
	case err == nil:
		return &runError{run}
	case run == nil && status.Code(err) == codes.DeadlineExceeded:
		return app.Exitf(app.ExitTimeout,
			"wait for run %s: time is up after %s: it goes on: see: holdfast run watch %s", id, limit, id)
	case run == nil:
		return app.Failed(err, "wait for run %s", id)
	case errors.Is(err, context.DeadlineExceeded):
		return app.Exitf(app.ExitTimeout,
			"wait for run %s: it is still %s after %s: it goes on: see: holdfast run watch %s", id, run.GetPhase(),
			limit, id)
	case errors.Is(err, context.Canceled):
		return app.Exitf(app.ExitError,
			"wait for run %s: interrupted while it is %s: it goes on: see: holdfast run watch %s", id,
			run.GetPhase(), id)
	}
	return app.Failed(err, "wait for run %s", id)
}

// PrintAwaited prints the run that Await returned, unless the wait was cut off, and returns the
// error of the wait.
func PrintAwaited(a *app.App, o *output.Flags, r *holdfastv1.Run, err error) error {
	if err != nil && !IsRunError(err) {
		return err
	}
	return cmp.Or(PrintRun(a, o, r), err)
}

// runError is a run that ended without success while the command waited for it.
type runError struct{ run *holdfastv1.Run }

func (e *runError) Error() string {
	r := e.run
	msg := fmt.Sprintf("run %s: %s", r.GetRunId(), r.GetPhase())
	if step := r.GetError().GetStep(); step != "" {
		msg += fmt.Sprintf(" at step %s", step)
	}
	if n := r.GetError().GetAttempt(); n > 0 {
		msg += fmt.Sprintf(" (attempt %d)", n)
	}
	if text := r.GetError().GetMessage(); text != "" {
		msg += ": " + text
	}
	return msg + ": see: holdfast run logs " + r.GetRunId()
}

// ExitCode implements the interface that the function ExitCode checks for.
func (e *runError) ExitCode() int { return app.ExitRunFailed }

// IsRunError reports whether a run ended without success, in contrast to a failed wait.
func IsRunError(err error) bool {
	_, ok := errors.AsType[*runError](err)
	return ok
}

// PrintRun prints a run with its steps.
func PrintRun(a *app.App, o *output.Flags, r *holdfastv1.Run) error {
	return output.PrintOne(a, o, kinds.Run(), r, kinds.RunSteps(r, a.Now()))
}

// OfRun calls f with the id of a run. If there is no such run but a machine with this id, it calls
// f again with the last run of the machine.
func OfRun(ctx context.Context, a *app.App, c *client.Client, id string, f func(id string) error) error {
	err := f(id)
	if client.Reason(err) != "RUN_NOT_FOUND" {
		return err
	}
	if _, merr := kinds.GetMachine(ctx, c, id); merr != nil {
		return err
	}
	runs, lerr := kinds.Run().All(ctx, c, filter.Equals("machine_id", id), 1)
	switch {
	case lerr != nil:
		return app.Failed(lerr, "list runs")
	case len(runs) == 0:
		return app.Exitf(app.ExitNotFound, "machine %s has no run", id)
	}
	a.Note("the last run of machine %s is %s", id, runs[0].GetRunId())
	return f(runs[0].GetRunId())
}

// RequestID returns the request id of a command, and prints one that it generates.
func RequestID(a *app.App, given string) string {
	if given != "" {
		return given
	}
	id := uuid.NewString()
	a.Note("request-id: %s", id)
	return id
}

// Run starts a run. After a success, show prints the result for people; nil prints the run.
func Run(ctx context.Context, a *app.App, c *client.Client, o *output.Flags, req *holdfastv1.StartRunRequest,
	wait WaitFlag,
	show func(*holdfastv1.Run) error) error {
	r, err := c.Runs().StartRun(ctx, req)
	if err != nil {
		return app.Failed(err, "start run on machine %s", req.GetMachineId())
	}
	if !wait.Given {
		return PrintRun(a, o, r)
	}
	if r.GetRunId() != "" {
		a.Note("run: %s", r.GetRunId())
	}
	r, err = Await(ctx, a, c, r.GetRunId(), wait.Limit)
	if show != nil && err == nil && o.Table() {
		return show(r)
	}
	return PrintAwaited(a, o, r, err)
}

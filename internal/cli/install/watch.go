package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func installWatch(a *app.App) *cobra.Command {
	var o output.Flags
	every := output.WatchInterval
	cmd := &cobra.Command{
		Use: "watch MACHINE", Args: app.Exactly("MACHINE"), ValidArgsFunction: a.Complete(installKind().Names),
		Short: "Follow a machine's install session until it ends",
		Long: `Follow a machine's install session until it ends: one line per stage and per observed percent, polled every --interval. If an
active run has not opened its session yet, it waits for that; without such a run it shows how the last install ended. The exit
code is 5 if the install failed, if it ended before the system was seen (if that can be seen), or if the run ended without a
session. 'run watch' shows the steps around it and their retries.`,
		Example: "  holdfast install watch m-123\n  holdfast install watch m-123 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if every <= 0 {
				return app.Usagef("--interval: %s: give more than 0", every)
			}
			return a.Online(func(ctx context.Context, c *client.Client, args []string) error {
				return watchInstall(ctx, a, c, &o, args[0], every)
			})(cmd, args)
		},
	}
	o.Register(cmd)
	cmd.Flags().DurationVar(&every, "interval", output.WatchInterval, "interval between polls")
	return cmd
}

func watchInstall(ctx context.Context, a *app.App, c *client.Client, o *output.Flags, id string,
	every time.Duration) error {
	ctx, cancel := a.Patience(ctx, 0)
	defer cancel()
	i, err := getInstall(ctx, c, id)
	if err == nil && i.GetClosedAt() != nil {
		i, err = nextInstall(ctx, a, c, i, every)
	}
	last := ""
	for {
		if err != nil {
			return app.Failed(err, "watch install of %s", id)
		}
		if now := fmt.Sprint(i.GetRunId(), i.GetAttempt(), i.GetStage(), i.GetProgress(), i.GetDetail(), i.GetNote(),
			i.GetError(), i.GetClosedAt() != nil); now != last {
			last = now
			if err := printInstall(a, o, i); err != nil {
				return err
			}
		}
		if i.GetClosedAt() != nil || i.GetStage() == holdfastv1.Install_BOOTED_DISK ||
			i.GetStage() == holdfastv1.Install_FAILED {
			return installEnded(ctx, c, i)
		}
		_ = wait.Sleep(ctx, every)
		if err := ctx.Err(); err != nil {
			what, code := "interrupted", app.ExitError
			if errors.Is(err, context.DeadlineExceeded) {
				what, code = "time is up", app.ExitTimeout
			}
			return app.Exitf(code, "watch install of %s: %s while it is at %s: it goes on", id, what,
				installStage(i).Value)
		}
		i, err = getInstall(ctx, c, id)
	}
}

// nextInstall returns the session to watch after the last one has ended: that of the active run
// once it has opened it, or the last one if no run is active.
func nextInstall(
	ctx context.Context, a *app.App, c *client.Client, old *holdfastv1.Install, every time.Duration,
) (*holdfastv1.Install, error) {
	id := old.GetMachineId()
	m, err := kinds.GetMachine(ctx, c, id)
	run := m.GetStatus().GetActiveRunId()
	if err != nil || run == "" || run == old.GetRunId() {
		return old, err
	}
	a.Note("note: run %s has not begun to install yet; how the install before it ended: holdfast install get %s", run,
		id)
	for {
		// Read the run first: a session that it opened before its end is then visible.
		r, err := kinds.GetRun(ctx, c, run)
		if err != nil {
			return nil, err
		}
		i, err := getInstall(ctx, c, id)
		if err != nil || i.GetRunId() != old.GetRunId() || i.GetAttempt() != old.GetAttempt() {
			return i, err
		}
		if client.Finished(r) {
			return nil, app.Exitf(app.ExitRunFailed, "run %s has ended (%s) and installed nothing", run,
				r.GetPhase())
		}
		_ = wait.Sleep(ctx, every)
	}
}

// installEnded reports whether the install of an ended session succeeded.
func installEnded(ctx context.Context, c *client.Client, i *holdfastv1.Install) error {
	why := i.GetError()
	switch i.GetStage() {
	case holdfastv1.Install_BOOTED_DISK:
		return nil
	case holdfastv1.Install_COMPLETE:
		// This is the final state if the installed system cannot be observed, or if the machine
		// was only wiped. Otherwise the system should have booted, and its attempt has the
		// result.
		r, err := kinds.GetRun(ctx, c, i.GetRunId())
		if err != nil {
			return app.Failed(err, "get run %s of the install of %s", i.GetRunId(), i.GetMachineId())
		}
		attempt := attemptOf(r, i)
		if attempt.GetOutcome() == holdfastv1.Attempt_SUCCEEDED {
			return nil
		}
		why = attempt.GetError()
	}
	return app.Exitf(app.ExitRunFailed, "install of %s: %s", i.GetMachineId(),
		render.Clean(cmp.Or(why, "it was over at "+installStage(i).Value)))
}

// attemptOf returns the attempt that opened a session, or nil if it is not recorded.
func attemptOf(r *holdfastv1.Run, i *holdfastv1.Install) *holdfastv1.Attempt {
	for _, s := range r.GetSteps() {
		for _, attempt := range s.GetAttempts() {
			if s.GetName() == i.GetStep() && attempt.GetNumber() == i.GetAttempt() {
				return attempt
			}
		}
	}
	return nil
}

func printInstall(a *app.App, o *output.Flags, i *holdfastv1.Install) error {
	switch {
	case o.Format == output.FormatName:
		return output.PrintNames(a, installKind(), []*holdfastv1.Install{i})
	case !o.Table():
		return output.PrintStream(a, o, i)
	}
	_, err := fmt.Fprintf(a.Out, "%s  %s  %d %%  %s\n", i.GetMachineId(), installStage(i).Value, i.GetProgress(),
		render.Clean(cmp.Or(i.GetError(), i.GetNote(), i.GetDetail())))
	return err
}

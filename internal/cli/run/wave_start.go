package run

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/start"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// waveStart is 'run start' with a selector.
func waveStart(a *app.App) *cobra.Command {
	cmd := runStart(a)
	cmd.Use = "start --selector FILTER (--type TYPE | --plan PLAN)"
	cmd.Short = "Start a run on each of many machines, a limited number at a time"
	cmd.ValidArgsFunction = nil
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if f := cmd.Flags(); !f.Changed("selector") && !f.Changed("labels") {
			return app.Usagef("%s: --selector is missing: usage: %s", cmd.CommandPath(), cmd.UseLine())
		}
		return app.Exactly()(cmd, args)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.TrimPrefix(f.Usage, "with --selector: ") })
	cmd.Flags().Lookup("wait").Usage = waitForWave
	_ = cmd.Flags().MarkHidden("request-id") // which --wave replaces; it fails only for a flag that does not exist
	cmd.Long = `Start a wave: a run on each machine that matches --selector (a filter) or -l (labels) now, at most --max-parallel at a time. No
more runs start once more than --max-failures have failed, were canceled or could not start. It is the same as 'run start'
with --selector.

The command follows the wave until it ends. The leader drives the wave: after Ctrl-C or with --detach it continues, and
'wave watch' follows it. The exit code is 5 unless all runs succeeded.

If the plan destroys data, or interrupts a machine that is in service, the command asks for confirmation: the number of
machines. Without a terminal it requires --yes. --dry-run makes the checks of the start, and shows which machines would be
refused.`
	cmd.Example = `  holdfast wave start -l env=prod,!canary --type REBOOT --max-parallel 5
  holdfast wave start --selector 'pool = gpu AND phase = READY' --type REPAVE --max-parallel 20 --max-failures 2`
	return cmd
}

// startWave starts a wave on the machines that match, after allow, and follows it until it ends.
func startWave(
	ctx context.Context, a *app.App, c *client.Client, o *output.Flags, run *holdfastv1.StartRunRequest,
	flags start.WaveFlags, limit time.Duration, allow func([]*holdfastv1.Machine) error,
) error {
	show := func(w *holdfastv1.Wave) error {
		if flags.Detach {
			return output.PrintOne(a, o, kinds.Wave(), w)
		}
		runs, err := kinds.Run().All(ctx, c, filter.Equals("request_id", w.GetWaveId()), 0)
		if err != nil {
			return app.Failed(err, "list the runs of wave %s", w.GetWaveId())
		}
		return output.PrintList(a, o, kinds.Run(), runs)
	}
	if flags.ID != "" {
		if w, err := kinds.GetWave(ctx, c, flags.ID); err == nil {
			return startedWave(ctx, a, c, w, flags.Detach, limit, show)
		}
	}
	machines, err := kinds.ListMachines(ctx, c, &output.Listing{Filter: flags.Selector})
	if err != nil {
		return err
	}
	req := flags.Request(run, machines)
	req.ValidateOnly = true
	_, err = c.Waves().StartWave(ctx, req)
	switch {
	case len(machines) == 0:
		return app.Exitf(app.ExitNotFound, "start a wave: no machine matches %q", flags.Selector)
	case err != nil:
		return app.Failed(err, "start a wave")
	}
	if err := allow(machines); err != nil {
		return err
	}
	req.ValidateOnly = false
	w, err := c.Waves().StartWave(ctx, req)
	if err != nil {
		return app.Failed(err, "start wave %s", req.GetRequestId())
	}
	return startedWave(ctx, a, c, w, flags.Detach, limit, show)
}

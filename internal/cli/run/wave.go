package run

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Wave returns the commands of waves.
func Wave(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use: "wave", Aliases: []string{"waves"},
		Short: "Start, follow, cancel and retry runs on many machines",
		Long: `Start, follow, cancel and retry waves. A wave is a run on each of many machines, a limited number at a time. The leader drives
it, so it continues without the command that started it. Its id is the request_id of its runs.`,
		Example: `  holdfast wave start --selector 'pool = gpu AND phase = READY' --type REPAVE --max-parallel 20
  holdfast wave list --filter 'phase = RUNNING'
  holdfast wave watch wave-6f1c
  holdfast wave cancel wave-6f1c --reason "wrong image"
  holdfast wave retry wave-6f1c`,
	}, waveStart(a), waveList(a), waveGet(a), waveWatch(a), waveCancel(a), waveRetry(a))
}

// waveMachines returns the machines of a wave.
func waveMachines(w *holdfastv1.Wave) []*render.Table {
	t := render.NewTable("MACHINE", "RUN", "STATE", "WHY")
	for _, m := range w.GetMachines() {
		t.Row(m.GetMachineId(), m.GetRunId(), render.State(describe.Enum(m.GetState())),
			cmp.Or(m.GetError(), describe.WaveMachineWaits(m, time.Now())))
	}
	return []*render.Table{t}
}

func waveList(a *app.App) *cobra.Command {
	return output.ListCommand(a, output.Lister[*holdfastv1.Wave]{
		Short: "List waves, newest first",
		Example: `  holdfast wave list
  holdfast wave list --filter 'phase = RUNNING'`,
		Kind: kinds.Wave(), Filter: "phase = RUNNING",
	})
}

func waveGet(a *app.App) *cobra.Command {
	return output.GetCommand(a, output.Getter[*holdfastv1.Wave]{
		Short:   "Show a wave and its machines",
		Example: "  holdfast wave get wave-6f1c\n  holdfast wave get wave-6f1c -o json",
		Kind:    kinds.Wave(), More: waveMachines,
		Watch: func(ctx context.Context, c *client.Client, o *output.Flags, id string) error {
			return watchWave(ctx, a, c, o, id)
		},
	})
}

func waveWatch(a *app.App) *cobra.Command {
	var o output.Flags
	cmd := &cobra.Command{
		Use: "watch WAVE", Args: app.Exactly("WAVE"), ValidArgsFunction: a.Complete(kinds.Wave().Names),
		Short: "Follow a wave until it ends",
		Long: `Follow a wave until it ends, and print it. The progress is on standard error: a block on a terminal, else a line for each run that ends.
Ctrl-C ends this command and not the wave. The exit code is 5 unless all runs succeeded, and 6 if --timeout was set and passed.`,
		Example: "  holdfast wave watch wave-6f1c",
		RunE: a.Online(func(ctx context.Context, c *client.Client, args []string) error {
			return watchWave(ctx, a, c, &o, args[0])
		}),
	}
	o.Register(cmd)
	return cmd
}

func watchWave(ctx context.Context, a *app.App, c *client.Client, o *output.Flags, id string) error {
	w, err := kinds.GetWave(ctx, c, id)
	if err != nil {
		return app.Failed(err, "get wave %s", id)
	}
	return finishWave(ctx, a, c, w, 0, func(w *holdfastv1.Wave) error { return printWave(a, o, w) })
}

func printWave(a *app.App, o *output.Flags, w *holdfastv1.Wave) error {
	return output.PrintOne(a, o, kinds.Wave(), w, waveMachines(w)...)
}

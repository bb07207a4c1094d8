package cli

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func waveCommand(a *app) *cobra.Command {
	return parent(&cobra.Command{
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

func waveList(a *app) *cobra.Command {
	return listCommand(a, lister[*holdfastv1.Wave]{
		short: "List waves, newest first",
		example: `  holdfast wave list
  holdfast wave list --filter 'phase = RUNNING'`,
		kind: waveKind(), filter: "phase = RUNNING",
	})
}

func waveGet(a *app) *cobra.Command {
	return getCommand(a, getter[*holdfastv1.Wave]{
		short:   "Show a wave and its machines",
		example: "  holdfast wave get wave-6f1c\n  holdfast wave get wave-6f1c -o json",
		kind:    waveKind(), more: waveMachines,
		watch: func(ctx context.Context, c *client.Client, o *output, id string) error {
			return watchWave(ctx, a, c, o, id)
		},
	})
}

func waveWatch(a *app) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "watch WAVE", Args: exactly("WAVE"), ValidArgsFunction: a.complete(waveKind().names),
		Short: "Follow a wave until it ends",
		Long: `Follow a wave until it ends, and print it. The progress is on standard error: a block on a terminal, else a line for each run that ends.
Ctrl-C ends this command and not the wave. The exit code is 5 unless all runs succeeded, and 6 if --timeout was set and passed.`,
		Example: "  holdfast wave watch wave-6f1c",
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			return watchWave(ctx, a, c, &o, args[0])
		}),
	}
	o.register(cmd)
	return cmd
}

func watchWave(ctx context.Context, a *app, c *client.Client, o *output, id string) error {
	w, err := getWave(ctx, c, id)
	if err != nil {
		return failed(err, "get wave %s", id)
	}
	return finishWave(ctx, a, c, w, 0, func(w *holdfastv1.Wave) error { return printWave(a, o, w) })
}

func printWave(a *app, o *output, w *holdfastv1.Wave) error {
	return printOne(a, o, waveKind(), w, waveMachines(w)...)
}

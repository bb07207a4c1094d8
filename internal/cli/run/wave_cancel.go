package run

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func waveCancel(a *app.App) *cobra.Command {
	var o output.Flags
	var why string
	var keep bool
	var ok prompt.Consent
	cmd := &cobra.Command{
		Use: "cancel WAVE", Args: app.Exactly("WAVE"), ValidArgsFunction: a.Complete(kinds.Wave().Names),
		Short: "Cancel a wave and its active runs",
		Long: `Cancel a wave: it starts no more runs, and its active runs are canceled as by 'run cancel'. With --keep-runs they continue, and the
wave ends with the last of them.

The command asks for confirmation: the id of the wave. Without a terminal it requires --yes. With --keep-runs it does
not ask: 'wave retry' starts the runs of the other machines later.`,
		Example: `  holdfast wave cancel wave-6f1c --reason "wrong image"
  holdfast wave cancel wave-6f1c --keep-runs`,
	}
	cmd.RunE = a.Online(func(ctx context.Context, c *client.Client, args []string) error {
		id := args[0]
		if ok.DryRun || !ok.Yes && !keep {
			w, err := kinds.GetWave(ctx, c, id)
			if err != nil {
				return app.Failed(err, "cancel wave %s", id)
			}
			if ok.DryRun {
				a.Note("dry run: %s", waveLoss(w, keep))
				return output.PrintOne(a, &o, kinds.Wave(), w)
			}
			if w.GetFinishedAt() == nil {
				if err := ok.Obtain(ctx, a, cmd.CommandPath(), waveLoss(w, keep), id); err != nil {
					return err
				}
			}
		}
		w, err := c.Waves().CancelWave(ctx, &holdfastv1.CancelWaveRequest{WaveId: id, Reason: why, KeepRuns: keep})
		if err != nil {
			return app.Failed(err, "cancel wave %s", id)
		}
		if !keep {
			a.Note("%s: machines whose run had begun go to MAINTENANCE, and are in: holdfast machine issues; to start "+
				"the runs of all that have not succeeded: holdfast wave retry %s", id, id)
		}
		return output.PrintOne(a, &o, kinds.Wave(), w)
	})
	o.Register(cmd, output.Shapes(kinds.Wave())...)
	ok.Register(cmd, "show the wave, and do not cancel it")
	cmd.Flags().StringVar(&why, "reason", "", "reason, kept with the wave and its canceled runs")
	cmd.Flags().BoolVar(&keep, "keep-runs", false, "do not cancel the active runs")
	return cmd
}

// waveLoss returns the effect of canceling a wave.
func waveLoss(w *holdfastv1.Wave, keepRuns bool) string {
	runs := "continue"
	if !keepRuns {
		runs = "are canceled, and the machines of those that have begun go to MAINTENANCE"
	}
	return fmt.Sprintf("cancel wave %s (%s): waiting and not started: %d; active: %d, which %s",
		w.GetWaveId(), describe.Number(int(w.GetTotal()), "machine"), w.GetWaiting(), w.GetActive(), runs)
}

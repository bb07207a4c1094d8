package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func (a *app) runLogs() *cobra.Command {
	var o output
	var follow bool
	var offset int64
	cmd := &cobra.Command{
		Use: "logs RUN", Aliases: []string{"log"}, Args: exactly("RUN"), ValidArgsFunction: a.complete(runKind().names),
		Short: "Print the log of a run",
		Long: `Print the log of a run, byte for byte; with -f follow it until the run ends. If a peer fails, the log
continues from another one without lost or repeated bytes. -o json prints each chunk as JSON on a line,
with its offset, step, attempt and stream.`,
		Example: `  holdfast run logs run-789
  holdfast run logs run-789 -f
  holdfast run logs run-789 --offset 4096 -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if offset < 0 {
				return usagef("--offset: %d: give 0 or more", offset)
			}
			return a.online(func(ctx context.Context, c *client.Client, args []string) error {
				return a.logs(ctx, c, &o, args[0], offset, follow)
			})(cmd, args)
		},
	}
	o.register(cmd)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow the log until the run ends")
	cmd.Flags().Int64Var(&offset, "offset", 0, "start at this byte of the log")
	return cmd
}

func (a *app) logs(ctx context.Context, c *client.Client, o *output, id string, offset int64, follow bool) error {
	ctx, cancel := a.patience(ctx)
	defer cancel()
	read := c.ReadLogs
	if follow {
		read = c.FollowLogs
	}
	next := offset
	err := read(ctx, id, offset, func(chunk *holdfastv1.LogChunk) error {
		if gap := chunk.GetOffset() - next; gap > 0 {
			a.note("note: %d bytes of the log before here are no longer kept", gap)
		}
		next = chunk.GetOffset() + int64(len(chunk.GetData()))
		if chunk.GetTruncated() {
			a.note("note: the log of run %s reached its limit here: nothing follows", id)
		}
		if o.structured() {
			return printStream(a, o, chunk)
		}
		_, err := a.Out.Write(chunk.GetData())
		return err
	})
	if follow {
		err = ended(ctx, err)
	}
	if client.Reason(err) == "RUN_NOT_FOUND" {
		if m, merr := c.Machines().GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: id}); merr == nil {
			return usagef("%s is a machine: see the log of one of its runs: holdfast run list --filter 'machine_id = %q'",
				m.GetMachineId(), m.GetMachineId())
		}
	}
	return failed(err, "read log of run %s", id)
}

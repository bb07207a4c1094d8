package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func (a *app) operatorClock() *cobra.Command {
	return parent(&cobra.Command{
		Use:     "clock",
		Short:   "Show or reset the replicated clock",
		Example: "  holdfast operator clock show",
	}, a.clockVerb("show", "Show the record's clock and the leader's", true),
		a.clockVerb("reset", "Set the record's clock to this machine's time after a wrong clock has moved it", false))
}

func (a *app) clockVerb(use, short string, dry bool) *cobra.Command {
	return &cobra.Command{
		Use: use, Args: exactly(), Short: short, Example: "  holdfast operator clock " + use,
		RunE: a.online(func(ctx context.Context, c *client.Client, _ []string) error {
			r, err := c.Operator().ResetClock(ctx, &holdfastv1.ResetClockRequest{Time: timestamppb.New(time.Now()),
				DryRun: dry})
			if err != nil {
				return failed(err, "%s the clock", use)
			}
			record, leader := r.GetBefore().AsTime(), r.GetLeader().AsTime()
			_, err = fmt.Fprintf(a.Out, "record  %s\nleader  %s\nahead   %s\n",
				record.Format(time.RFC3339), leader.Format(time.RFC3339), record.Sub(leader).Round(time.Second))
			if err == nil && !dry {
				_, err = fmt.Fprintln(a.Out, "the record's clock was set")
			}
			return err
		}),
	}
}

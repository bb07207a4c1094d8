package machine

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func machineCreate(a *app.App) *cobra.Command {
	var o output.Flags
	var life app.TTL
	r := &holdfastv1.CreateAgentMachineRequest{}
	cmd := &cobra.Command{
		Use: "create --pool POOL", DisableFlagsInUseLine: true, Args: app.Exactly(),
		Short: "Create a machine and the token of its agent",
		Long: `Create a machine and the token of its agent, which is valid for this machine only. The token is printed once, on standard
output: the cluster stores only its hash. The agent must register within an hour.`,
		Example: `  holdfast machine create --pool gpu
  holdfast machine create --pool gpu --id m-123 > m-123.token
  holdfast machine create --pool gpu -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.GetPool() == "" {
				return app.Usagef("--pool is missing: name the pool that the machine belongs to")
			}
			if o.Format == output.FormatName {
				return app.Usagef("-o name: the token would be lost")
			}
			r.TtlSeconds = int64(time.Duration(life) / time.Second)
			return a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
				made, err := c.Agents().CreateAgentMachine(ctx, r)
				if err != nil {
					return app.Failed(err, "create a machine in pool %s", r.GetPool())
				}
				if !o.Table() {
					return output.PrintOne(a, &o, output.Kind[*holdfastv1.CreateAgentMachineResponse]{Reveal: true}, made)
				}
				a.Note("machine %s in pool %s awaits its agent; its token %s is shown once, keep it",
					made.GetMachine().GetMachineId(), r.GetPool(), made.GetTokenId())
				_, err = fmt.Fprintln(a.Out, made.GetToken())
				return err
			})(cmd, args)
		},
	}
	o.Register(cmd, output.Shapes(output.Kind[*holdfastv1.CreateAgentMachineResponse]{})...)
	f := cmd.Flags()
	f.StringVar(&r.Pool, "pool", "", "pool of the machine")
	f.StringVar(&r.MachineId, "id", "", "machine id (default: generated)")
	f.StringVar(&r.ProviderName, "provider", "", "provider (default: the pool's)")
	f.Var(&life, "ttl", "lifetime of the token, such as 90d (default: until it is revoked)")
	a.CompleteFlag(cmd, "pool", kinds.Pool().Names)
	return cmd
}

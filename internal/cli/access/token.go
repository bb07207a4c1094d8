package access

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Token returns the commands of tokens.
func Token(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use: "token", Aliases: []string{"tokens"},
		Short: "Manage access tokens",
		Example: `  holdfast token create --name ci --role operator --pool gpu --ttl 90d
  holdfast token list --filter 'state = active'
  holdfast token revoke tok-0a1b2c3d4e5f`,
	}, tokenCreate(a), tokenList(a), tokenRevoke(a))
}

func tokenCreate(a *app.App) *cobra.Command {
	var o output.Flags
	var r holdfastv1.CreateTokenRequest
	var roleName string
	var life app.TTL
	cmd := &cobra.Command{
		Use: "create --name NAME --role ROLE", DisableFlagsInUseLine: true, Args: app.Exactly(),
		Short: "Create a token",
		Long: `Create a token. It is printed once, on standard output: the cluster stores only its hash.

Roles: viewer reads; operator also starts runs and changes machines; admin may do everything. Viewers and operators can be
restricted to pools. agent is for one machine. enroller enrolls the machines of one pool, whose agents then create their own
tokens. pool-agent is for the manager of one pool, and for agents that cannot enroll. service is for services that register
themselves. A pool without a role means pool-agent; a machine without a role means agent.`,
		Example: `  export HOLDFAST_TOKEN=$(holdfast token create --name alice --role admin)
  holdfast token create --name ci --role operator --pool gpu,cpu --ttl 90d
  holdfast token create --name gpu-machines --role enroller --pool gpu --ttl 24h
  holdfast token create --name ci --role viewer -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if r.Role, err = role(roleName, &r); err != nil {
				return err
			}
			if o.Format == output.FormatName {
				return app.Usagef("-o name: the value of the token would be lost: see its id with holdfast token list")
			}
			r.TtlSeconds, r.NeverExpires = int64(time.Duration(life)/time.Second), life == app.Never
			if r.NeverExpires {
				r.TtlSeconds = 0
			}
			return a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
				made, err := c.Access().CreateToken(ctx, &r)
				if err != nil {
					return app.Failed(err, "create token %s", r.GetName())
				}
				if !o.Table() {
					return output.PrintOne(a, &o, output.Kind[*holdfastv1.CreateTokenResponse]{Reveal: true}, made)
				}
				a.Note("%s for %s, %s: shown once, keep it", made.GetToken().GetTokenId(), kinds.May(made.GetToken()),
					kinds.Until(made.GetToken()))
				_, err = fmt.Fprintln(a.Out, made.GetSecret())
				return err
			})(cmd, args)
		},
	}
	o.Register(cmd, output.Shapes(output.Kind[*holdfastv1.CreateTokenResponse]{})...)
	f := cmd.Flags()
	f.StringVar(&r.Name, "name", "", "name of the token; its calls appear as token:NAME")
	f.StringVar(&roleName, "role", "", "viewer, operator, admin, agent, pool-agent, enroller or service")
	f.StringSliceVar(&r.Pools, "pool", nil, "restrict it to these pools, comma-separated")
	f.StringVar(&r.MachineId, "machine", "", "machine of the agent")
	f.Var(&life, "ttl", "time until it expires, such as 90d, 12h or never (default 90d; agents and services: never)")
	f.Uint32Var(&r.MaxMachines, "max-machines", 0, "machines that an enroller may enroll in all (default 1000)")
	f.StringVar(&r.Comment, "comment", "", "comment, kept with the token")
	app.Choices(cmd, "role", "viewer", "operator", "admin", "agent", "pool-agent", "enroller", "service")
	return cmd
}

// role parses a role; if it is empty, a machine or a pool implies it.
func role(name string, r *holdfastv1.CreateTokenRequest) (holdfastv1.Role_Value, error) {
	switch {
	case name == "" && r.GetMachineId() != "":
		return holdfastv1.Role_AGENT, nil
	case name == "" && len(r.GetPools()) == 1:
		return holdfastv1.Role_POOL_AGENT, nil
	case name == "":
		return 0, app.Usagef("--role is missing: give viewer, operator, admin, agent, pool-agent, enroller or service")
	}
	v := holdfastv1.Role_Value_value[app.EnumName(name)]
	if v == 0 {
		if before, pool, ok := strings.Cut(name, "@"); ok {
			return 0, app.Usagef("--role: %q names a pool, as roles of certificates and identity providers do: here it is "+
				"--role %s --pool %s", name, before, pool)
		}
		return 0, app.Usagef("--role: %q is not one of viewer, operator, admin, agent, pool-agent, enroller, service", name)
	}
	return holdfastv1.Role_Value(v), nil
}

func tokenList(a *app.App) *cobra.Command {
	return output.ListCommand(a, output.Lister[*holdfastv1.Token]{
		Short: "List tokens, without their values",
		Example: `  holdfast token list
  holdfast token list --filter 'state = active AND role = ADMIN'
  holdfast token list --filter 'pool:gpu' -o wide`,
		Kind: kinds.Token(), Filter: "state = active",
	})
}

func tokenRevoke(a *app.App) *cobra.Command {
	return output.EachCommand(a, output.Each[*holdfastv1.Token]{
		Verb: "revoke", Done: "revoked", Kind: kinds.Token(),
		Short: "Revoke tokens, at once and on every peer",
		Long: `Revoke tokens by their ids (not by their values). When the command ends, no peer accepts them; revoking
again is fine. Runs and waves that they have started continue; the command names the active waves.`,
		Example: "  holdfast token revoke tok-0a1b2c3d4e5f",
		Do: func(ctx context.Context, c *client.Client, id string) error {
			t, err := c.Access().RevokeToken(ctx, &holdfastv1.RevokeTokenRequest{TokenId: id})
			if err == nil {
				noteWaves(ctx, a, c, "token:"+t.GetName())
			}
			return err
		},
		Label: tokenLabel,
	})
}

// noteWaves names the active waves of a caller, which continue without it. It is only a note, so
// errors are ignored, such as those of peers that do not know waves.
func noteWaves(ctx context.Context, a *app.App, c *client.Client, principal string) {
	r, err := c.Waves().ListWaves(ctx, &holdfastv1.ListWavesRequest{
		Filter: filter.Equals("principal", principal) + " AND (phase = RUNNING OR phase = STOPPING)",
	})
	if err != nil {
		return
	}
	for _, w := range r.GetWaves() {
		a.Note("%s: started by %s, continues: end it with: holdfast wave cancel %s", w.GetWaveId(), principal,
			w.GetWaveId())
	}
}

// tokenLabel returns the id of a token, or its position if it is a value: nothing must show it.
func tokenLabel(i int, id string) string {
	if kinds.IsTokenValue(id) {
		return fmt.Sprintf("number %d", i+1)
	}
	return id
}

// Whoami returns the command that shows the identity of the caller.
func Whoami(a *app.App) *cobra.Command {
	var o output.Flags
	cmd := &cobra.Command{
		Use: "whoami", Args: app.Exactly(),
		Short:   "Show your identity and role",
		Example: "  holdfast whoami",
		RunE: a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			id, err := c.Access().WhoAmI(ctx, &holdfastv1.WhoAmIRequest{})
			if err != nil {
				return app.Failed(err, "get your identity")
			}
			return output.PrintOne(a, &o, kinds.Identity(), id)
		}),
	}
	o.Register(cmd)
	return cmd
}

package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/cmd/holdfast/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func (a *app) secret() *cobra.Command {
	return parent(&cobra.Command{
		Use: "secret", Aliases: []string{"secrets"},
		Short: "What opens BMCs and hosts: values go in and never come out",
		Long: `What opens BMCs and hosts. Machines refer to a secret by its name (bmc_credentials_ref, ssh_credentials_ref).
Values go in and never come out: they are sealed under a key that peers have in a file (--secrets-key-file).`,
		Example: `  holdfast secret keygen --out /etc/holdfast/secrets.keys
  holdfast secret put bmc/r7 --type bmc --username root --from-file password=/run/bmc-password
  holdfast secret list
  holdfast secret rotate`,
	}, a.secretPut(), a.secretList(), a.secretGet(), a.secretDelete(), a.secretRotate(), a.secretKeygen())
}

func secretKind() kind[*holdfastv1.Secret] {
	return kind[*holdfastv1.Secret]{
		list:   "secrets",
		name:   (*holdfastv1.Secret).GetName,
		header: []string{"SECRET", "TYPE", "VALUES", "POOLS", "VERSION", "KEY", "USES", "UPDATED"},
		wide:   []string{"BY", "CREATED", "USED BY"},
		row: func(s *holdfastv1.Secret, now time.Time, wide bool) []render.Text {
			row := []render.Text{
				plain(s.GetName()), plain(s.GetType()), plain(strings.Join(s.GetKeys(), ",")), plain(strings.Join(s.GetPools(), ",")), plain(fmt.Sprint(s.GetVersion())),
				plain(s.GetKeyId()), plain(fmt.Sprint(s.GetUses())), plain(render.Ago(now, at(s.GetUpdatedAt()))),
			}
			if wide {
				row = append(row, plain(s.GetUpdatedBy()), plain(render.Ago(now, at(s.GetCreatedAt()))), plain(strings.Join(s.GetUsedBy(), ",")))
			}
			return row
		},
	}
}

// usedBy lists machines that refer to a secret.
func usedBy(s *holdfastv1.Secret) *render.Table {
	t := render.NewTable("USED BY")
	for _, m := range s.GetUsedBy() {
		t.Row(plain(m))
	}
	if more := int(s.GetUses()) - len(s.GetUsedBy()); more > 0 {
		t.Row(plain(fmt.Sprintf("and %d more", more)))
	}
	return t
}

func (a *app) secretList() *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Args: exactly(),
		Short:   "List secrets by name, without their values",
		Example: "  holdfast secret list\n  holdfast secret list -o wide",
		RunE: a.online(func(ctx context.Context, c *client.Client, _ []string) error {
			items, more, err := collect(l.limit, func(size int32, token string) ([]*holdfastv1.Secret, string, error) {
				r, err := c.Secrets().ListSecrets(ctx, &holdfastv1.ListSecretsRequest{PageSize: size, PageToken: token})
				return r.GetSecrets(), r.GetNextPageToken(), err
			})
			if err != nil {
				return failed(err, "list secrets")
			}
			if more {
				a.note("note: there are more than these %d: raise --limit", l.limit)
			}
			return printList(a, &l.output, secretKind(), items)
		}),
	}
	l.register(cmd, "")
	return cmd
}

func (a *app) secretGet() *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "get SECRET", Args: exactly("SECRET"), ValidArgsFunction: a.complete(secretNames),
		Short:   "Show what is on record of a secret, and which machines refer to it",
		Example: "  holdfast secret get bmc/r7",
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := c.Secrets().GetSecret(ctx, &holdfastv1.GetSecretRequest{Name: args[0]})
			if err != nil {
				return failed(err, "get secret %s", args[0])
			}
			return printOne(a, &o, secretKind(), s, usedBy(s))
		}),
	}
	o.register(cmd)
	return cmd
}

func (a *app) secretDelete() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "delete SECRET...", Args: atLeast("SECRET"), ValidArgsFunction: a.complete(secretNames, secretNames),
		Short:   "Delete secrets that no machine refers to",
		Example: "  holdfast secret delete bmc/r7\n  holdfast secret delete bmc/r7 --force",
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			var errs []error
			for _, name := range args {
				if _, err := c.Secrets().DeleteSecret(ctx, &holdfastv1.DeleteSecretRequest{Name: name, Force: force}); err != nil {
					errs = append(errs, failed(err, "delete secret %s", name))
					continue
				}
				a.note("deleted secret %s", name)
			}
			return several(errs, len(args), "delete secrets")
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "although machines refer to it")
	return cmd
}

func (a *app) secretRotate() *cobra.Command {
	return &cobra.Command{
		Use: "rotate", Args: exactly(),
		Short: "Seal all secrets again under the leader's primary key",
		Long: `Seal all secrets, and the keys of the built-in issuer, again under the leader's primary key: the first line of its
--secrets-key-file. To rotate: put a new line first in the file of every peer, run this, then remove the old line. It can be
run again at any time.`,
		Example: "  holdfast secret rotate",
		RunE: a.online(func(ctx context.Context, c *client.Client, _ []string) error {
			r, err := c.Secrets().RotateSecrets(ctx, &holdfastv1.RotateSecretsRequest{})
			if err != nil {
				return failed(err, "rotate secrets")
			}
			a.note("sealed %d again; all are under key %s now", r.GetResealed(), r.GetKeyId())
			return nil
		}),
	}
}

func secretNames(ctx context.Context, c *client.Client) []string {
	r, err := c.Secrets().ListSecrets(ctx, &holdfastv1.ListSecretsRequest{PageSize: pageSize})
	if err != nil {
		return nil
	}
	return ids(r.GetSecrets(), (*holdfastv1.Secret).GetName)
}

package secret

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Command returns the commands of secrets.
func Command(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use: "secret", Aliases: []string{"secrets"},
		Short: "Manage credentials for BMCs and hosts",
		Long: `Manage credentials for BMCs and hosts. Machines refer to a secret by name (bmc_credentials_ref, ssh_credentials_ref).
Values cannot be read back: they are encrypted with a key that the peers have in a file (--secrets-key-file).`,
		Example: `  holdfast secret keygen --out /etc/holdfast/secrets.keys
  holdfast secret put bmc/r7 --type bmc --username root --from-file password=/run/bmc-password
  holdfast secret list
  holdfast secret rotate`,
	}, secretPut(a), secretList(a), secretGet(a), secretDelete(a), secretRotate(a), secretKeygen(a))
}

// usedBy lists the machines that refer to a secret.
func usedBy(s *holdfastv1.Secret) *render.Table {
	t := render.NewTable("USED BY")
	for _, m := range s.GetUsedBy() {
		t.Row(m)
	}
	if more := int(s.GetUses()) - len(s.GetUsedBy()); more > 0 {
		t.Row(fmt.Sprintf("and %d more", more))
	}
	return t
}

func secretList(a *app.App) *cobra.Command {
	return output.ListCommand(a, output.Lister[*holdfastv1.Secret]{
		Short:   "List secrets by name, without their values",
		Example: "  holdfast secret list\n  holdfast secret list -o wide",
		Kind:    kinds.Secret(),
	})
}

func secretGet(a *app.App) *cobra.Command {
	return output.GetCommand(a, output.Getter[*holdfastv1.Secret]{
		Short:   "Show a secret without its values, and the machines that refer to it",
		Example: "  holdfast secret get bmc/r7",
		Kind:    kinds.Secret(),
		More:    func(s *holdfastv1.Secret) []*render.Table { return []*render.Table{usedBy(s)} },
	})
}

func secretDelete(a *app.App) *cobra.Command {
	var force bool
	cmd := output.EachCommand(a, output.Each[*holdfastv1.Secret]{
		Kind:    kinds.Secret(),
		Short:   "Delete secrets that no machine refers to",
		Example: "  holdfast secret delete bmc/r7\n  holdfast secret delete bmc/r7 --force",
		Note: func(all []*holdfastv1.Secret) string {
			users := 0
			for _, s := range all {
				users += int(s.GetUses())
			}
			if users == 0 {
				return ""
			}
			return " (used by " + describe.Number(users, "machine") + ")"
		},
		Do: func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.Secrets().DeleteSecret(ctx, &holdfastv1.DeleteSecretRequest{Name: id, Force: force})
			return err
		},
	})
	cmd.Flags().BoolVar(&force, "force", false, "delete it even if machines refer to it")
	return cmd
}

func secretRotate(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "rotate", Args: app.Exactly(),
		Short: "Encrypt all secrets again with the leader's primary key",
		Long: `Encrypt all secrets, and the keys of the built-in issuer, again with the leader's primary key, which is the first line of its
--secrets-key-file. To rotate keys, insert a new first line in the file of every peer, run this, then remove the old line.
It is safe to repeat.`,
		Example: "  holdfast secret rotate",
		RunE: a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			r, err := c.Secrets().RotateSecrets(ctx, &holdfastv1.RotateSecretsRequest{})
			if err != nil {
				return app.Failed(err, "rotate secrets")
			}
			a.Note("encrypted %d again; all are encrypted with key %s now", r.GetResealed(), r.GetKeyId())
			return nil
		}),
	}
}

func secretKeygen(a *app.App) *cobra.Command {
	var id, out string
	cmd := &cobra.Command{
		Use: "keygen", Args: app.Exactly(),
		Short: "Create a key that encrypts secrets",
		Long: `Create a key that encrypts secrets, one line of a --secrets-key-file. All peers need the same lines. Keep a copy outside of the
peers: secrets cannot be decrypted without their key. With --out the line is written to a new file with mode 0600, else to
standard output.`,
		Example: `  holdfast secret keygen --out /etc/holdfast/secrets.keys
  holdfast secret keygen --id 2026-11 | cat - /etc/holdfast/secrets.keys > /etc/holdfast/secrets.keys.new`,
		RunE: func(*cobra.Command, []string) error {
			line, err := secrets.NewKeyLine(id)
			if err != nil {
				return app.Usagef("--id: %s", err)
			}
			if out == "" {
				_, err = fmt.Fprintln(a.Out, line)
				return err
			}
			f, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return fmt.Errorf("create key file (existing files are never overwritten): %w", err)
			}
			_, err = fmt.Fprintln(f, line)
			if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
				return fmt.Errorf("write key file %s: %w", out, err)
			}
			a.Note("created %s: copy it to every peer, and keep a copy outside of the peers", out)
			return nil
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "name of the key, such as 2026-11 (default: derived from the key)")
	cmd.Flags().StringVar(&out, "out", "", "output `file`, created with mode 0600")
	return cmd
}

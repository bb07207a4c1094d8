package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/internal/secrets"
)

func (a *app) secretKeygen() *cobra.Command {
	var id, out string
	cmd := &cobra.Command{
		Use: "keygen", Args: exactly(),
		Short: "Create a key that encrypts secrets",
		Long: `Create a key that encrypts secrets, one line of a --secrets-key-file. All peers need the same lines. Keep a copy outside of the
peers: secrets cannot be decrypted without their key. With --out the line is written to a new file with mode 0600, else to
standard output.`,
		Example: `  holdfast secret keygen --out /etc/holdfast/secrets.keys
  holdfast secret keygen --id 2026-11 | cat - /etc/holdfast/secrets.keys > /etc/holdfast/secrets.keys.new`,
		RunE: func(*cobra.Command, []string) error {
			line, err := secrets.NewKeyLine(id)
			if err != nil {
				return usagef("--id: %s", err)
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
			a.note("made %s: copy it to every peer, and to a place where no peer is", out)
			return nil
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "name of the key, such as 2026-11 (default: derived from the key)")
	cmd.Flags().StringVar(&out, "out", "", "output `file`, created with mode 0600")
	return cmd
}

package pki

import (
	"crypto/rand"
	"encoding/base64"

	"github.com/spf13/cobra"
)

// gossipKeySize selects AES-256 in memberlist.
const gossipKeySize = 32

// gossipKey returns a line for a file of gossip keys.
func gossipKey() string {
	key := make([]byte, gossipKeySize)
	_, _ = rand.Read(key) // crypto/rand.Read never fails
	return base64.StdEncoding.EncodeToString(key) + "\n"
}

func keygen() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "keygen [--out FILE]", DisableFlagsInUseLine: true, Args: noArgs,
		Short: "Create a key that encrypts gossip",
		Long: `Create a key that encrypts gossip: 32 random bytes in base64, to standard output or to a file (mode 0600). All peers of a
cluster have the same file (--gossip-key-file).

To replace a key, add the new one as the second line on every peer, then swap the lines on every peer, then remove the old one.
Peers read the file again within seconds, without a restart. The first line encrypts; all lines decrypt.`,
		Example: `  holdfast gossip keygen --out gossip.key
  holdfast gossip keygen >> gossip.key`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				_, err := cmd.OutOrStdout().Write([]byte(gossipKey()))
				return err
			}
			if err := create(private(out, []byte(gossipKey()))); err != nil {
				return err
			}
			cmd.Printf("%s  the key of gossip: every peer of the cluster gets it, and nobody else\n", out)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "output `file` (default: standard output)")
	return cmd
}

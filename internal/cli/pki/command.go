package pki

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// groupSetup is the help group of these commands.
const groupSetup = "setup"

const (
	certFile = "ca.pem"
	keyFile  = "ca-key.pem"

	peerCertFile = "peer-ca.pem"
	peerKeyFile  = "peer-ca-key.pem"
)

// usageError is an invalid command line.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

// ExitCode is 2, as for every other command.
func (e *usageError) ExitCode() int { return 2 }

func usagef(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{fmt.Sprintf("%s: %s: see: %s --help", cmd.CommandPath(), fmt.Sprintf(format, args...),
		cmd.CommandPath())}
}

// TLSCommand returns "tls", the commands for certificate authorities and certificates.
func TLSCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "tls", GroupID: groupSetup,
		Short: "Create and inspect certificates of peers and clients",
		Long: `Create and inspect certificates. A cluster needs one CA, a certificate for each peer, and one for each person or tool
that does not use a token. Certificates are written with mode 0644, keys with 0600. Nothing is overwritten, except by renew.`,
		Example: `  holdfast tls init --cluster prod --peer n1=10.0.0.1 --peer n2=10.0.0.2 --peer n3=10.0.0.3
  holdfast tls ca create --cluster prod
  holdfast tls cert create --peer n1 --host n1.example.org --host 10.0.0.1
  holdfast tls cert create --client --name alice --role admin
  holdfast tls inspect n1.pem`,
	},
		group(&cobra.Command{Use: "ca", Short: "Manage the certificate authority of a cluster",
			Example: "  holdfast tls ca create --cluster prod"}, caCreate(), caPeers()),
		group(&cobra.Command{Use: "cert", Short: "Manage certificates of peers and clients",
			Example: "  holdfast tls cert create --peer n1 --host n1.example.org"}, certCreate(), certRenew()),
		group(&cobra.Command{Use: "peer", Short: "Manage the files of peers",
			Example: "  holdfast tls peer add n4=10.0.0.4"}, peerAdd()),
		initCluster(), inspect())
}

// GossipCommand returns "gossip", the commands for gossip keys.
func GossipCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "gossip", GroupID: groupSetup,
		Short: "Manage keys that encrypt gossip between peers", Example: "  holdfast gossip keygen --out gossip.key",
	}, keygen())
}

// group returns a command that only has subcommands.
func group(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return usagef(cmd, "unknown command %q", args[0])
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(cmd, "unexpected argument %q", args[0])
	}
	return nil
}

// end returns the end of the validity of something created now.
func end(cmd *cobra.Command, days int) (time.Time, error) {
	if days < 1 || days > 36500 {
		return time.Time{}, usagef(cmd, "--days %d: want 1 to 36500", days)
	}
	return time.Now().Add(time.Duration(days) * 24 * time.Hour), nil
}

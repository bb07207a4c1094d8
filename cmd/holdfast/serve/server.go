// Package serve is the command that runs one peer of a cluster. It reads the configuration and puts
// the parts together. It must not hold logic of its own: that is in cluster, executor and server.
package serve

import (
	"cmp"
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/internal/cli/flagerror"
)

// Command returns the command that runs a peer. version is the version of the build.
func Command(version string) *cobra.Command {
	var cfg Config
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run one peer of a cluster",
		Long: `Run one peer of a cluster. Every flag is an environment variable too (HOLDFAST_NODE_ID) and a
key of the configuration file (node_id); flags win over the environment, and that over the file.`,
		Example: `  holdfast server --dev
  holdfast server --config /etc/holdfast/peer.yaml
  holdfast server --node-id n1 --data-dir /var/lib/holdfast --grpc-addr 10.0.0.1:7400 --http-addr 10.0.0.1:7401 --raft-addr 10.0.0.1:7402 \
    --gossip-addr 10.0.0.1:7403 --join 10.0.0.2:7403,10.0.0.3:7403 --bootstrap-expect 3 \
    --tls-ca ca.pem --tls-cert n1.pem --tls-key n1-key.pem --gossip-key-file gossip.key
  holdfast server --insecure --node-id n1 --data-dir /tmp/n1 --bootstrap-expect 3 --join 127.0.0.1:7413,127.0.0.1:7423`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.first(cmp.Or(cfg.load(cmd.Flags(), os.LookupEnv), cfg.settle())); err != nil {
				return flagerror.Invalid(err)
			}
			cfg.settings = settings(cmd.LocalFlags()) // those of clients have a token
			log, err := cfg.logger()
			if err != nil {
				return flagerror.Invalid(err)
			}
			return run(cmd.Context(), &cfg, version, log)
		},
	}
	cfg.flags(cmd.Flags())
	return cmd
}

// run creates a peer and runs it until ctx ends.
func run(ctx context.Context, cfg *Config, version string, log *slog.Logger) error {
	last := &lastResort{exit: os.Exit, log: log.With("peer", cfg.PeerID)}
	defer last.stop() // after all the others
	o, err := open(ctx, cfg, version, log)
	if err != nil {
		return err
	}
	defer o.close()
	m, err := newMachines(o)
	if err != nil {
		return err
	}
	t := newTasks(o, m)
	e, err := newEdge(o, m, t) //nolint:contextcheck // a request has its own context
	if err != nil {
		return err
	}
	if err := serve(ctx, o, m, t, e, last); err != nil {
		return err
	}
	o.log.Info("peer has stopped")
	return nil
}

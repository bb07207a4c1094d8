package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// versions is the result of version, for scripts.
type versions struct {
	Client app.Build     `json:"client"`
	Peers  []peerVersion `json:"peers,omitempty"`
}

// peerVersion is the version of one peer.
type peerVersion struct {
	Peer    string `json:"peer"`
	Version string `json:"version"`
	Level   uint32 `json:"max_feature_level"`
	Error   string `json:"error,omitempty"`
}

// Version returns the command that shows versions.
func Version(a *app.App) *cobra.Command {
	var o output.Flags
	var server bool
	cmd := &cobra.Command{
		Use: "version", Args: app.Exactly(),
		Short: "Show the version of this binary and, with --server, of each peer",
		Example: `  holdfast version
  holdfast version --server -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !server {
				return printVersion(a, &o, nil)
			}
			return a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
				s, err := kinds.GetClusterStatus(ctx, c)
				if err != nil {
					return app.Failed(err, "get the peers' versions")
				}
				return printVersion(a, &o, s)
			})(cmd, args)
		},
	}
	o.Register(cmd, output.DocumentShape[versions]("a version"))
	cmd.Flags().BoolVar(&server, "server", false, "also show the version of each peer")
	return cmd
}

func printVersion(a *app.App, o *output.Flags, s *holdfastv1.ClusterStatus) error {
	b := app.ThisBuild(a.Version)
	switch {
	case o.Format == output.FormatName:
		_, err := fmt.Fprintln(a.Out, b.Version)
		return err
	case o.Structured():
		doc := versions{Client: b}
		for _, p := range s.GetPeers() {
			doc.Peers = append(doc.Peers, peerVersion{p.GetId(), p.GetVersion(), p.GetMaxFeatureLevel(), p.GetError()})
		}
		raw, err := json.Marshal(doc)
		if err != nil {
			return fmt.Errorf("write the version: %w", err)
		}
		return output.PrintDocument(a, o, raw)
	}
	if _, err := fmt.Fprintf(a.Out, "holdfast %s (%s, %s)\n", b.Version, b.Go, b.Platform); err != nil {
		return err
	}
	if s == nil {
		return nil
	}
	return kinds.VersionTable(a, o, s)
}

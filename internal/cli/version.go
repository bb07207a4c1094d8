package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// versions is the result of version, for scripts.
type versions struct {
	Client build         `json:"client"`
	Peers  []peerVersion `json:"peers,omitempty"`
}

// peerVersion is the version of one peer.
type peerVersion struct {
	Peer    string `json:"peer"`
	Version string `json:"version"`
	Level   uint32 `json:"max_feature_level"`
	Error   string `json:"error,omitempty"`
}

func versionCommand(a *app) *cobra.Command {
	var o output
	var server bool
	cmd := &cobra.Command{
		Use: "version", Args: exactly(),
		Short: "Show the version of this binary and, with --server, of each peer",
		Example: `  holdfast version
  holdfast version --server -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !server {
				return printVersion(a, &o, nil)
			}
			return a.online(func(ctx context.Context, c *client.Client, _ []string) error {
				s, err := getClusterStatus(ctx, c)
				if err != nil {
					return failed(err, "get the peers' versions")
				}
				return printVersion(a, &o, s)
			})(cmd, args)
		},
	}
	o.register(cmd, documentShape[versions]("a version"))
	cmd.Flags().BoolVar(&server, "server", false, "also show the version of each peer")
	return cmd
}

func printVersion(a *app, o *output, s *holdfastv1.ClusterStatus) error {
	b := thisBuild(a.Version)
	switch {
	case o.format == formatName:
		_, err := fmt.Fprintln(a.Out, b.Version)
		return err
	case o.structured():
		doc := versions{Client: b}
		for _, p := range s.GetPeers() {
			doc.Peers = append(doc.Peers, peerVersion{p.GetId(), p.GetVersion(), p.GetMaxFeatureLevel(), p.GetError()})
		}
		raw, err := json.Marshal(doc)
		if err != nil {
			return fmt.Errorf("write the version: %w", err)
		}
		return printDocument(a, o, raw)
	}
	if _, err := fmt.Fprintf(a.Out, "holdfast %s (%s, %s)\n", b.Version, b.Go, b.Platform); err != nil {
		return err
	}
	if s == nil {
		return nil
	}
	return versionTable(a, o, s)
}

package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/top"
)

// NewTopSource returns the source of the view of holdfast top.
func NewTopSource(c *client.Client) top.Source { return topSource{c} }

// Visible returns the subcommands that the help lists.
func Visible(cmd *cobra.Command) []*cobra.Command { return visible(cmd) }

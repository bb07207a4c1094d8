package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/top"
)

// Names for the tests of package cli_test.
const (
	MaxValue       = maxValue
	RestoreTimeout = restoreTimeout
	Troubled       = troubled
	Uploads        = uploads
)

type (
	AppliedDocument = appliedDocument
	AppliedResource = appliedResource
	AppliedChange   = appliedChange
)

func NewTopSource(c *client.Client) top.Source { return topSource{c} }

func Visible(cmd *cobra.Command) []*cobra.Command { return visible(cmd) }

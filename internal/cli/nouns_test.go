package cli

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
)

// isList reports whether a command lists resources.
func isList(cmd *cobra.Command) bool { return cmd.Name() == "list" }

// Each noun with a list can be explained.
func TestExplainNouns(t *testing.T) {
	for _, group := range Root(app.Streams{}).Commands() {
		if group.Name() == "context" || group.Name() == "cluster-ref" || !slices.ContainsFunc(group.Commands(), isList) {
			continue // clusters are secrets, contexts are files
		}
		if resources()[group.Name()] == nil {
			t.Errorf("%s has a list, but 'explain %s' does not exist", group.Name(), group.Name())
		}
	}
}

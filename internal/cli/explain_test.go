package cli

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
)

func TestExplain(t *testing.T) {
	for _, name := range []string{"machine", "machine.spec.rack", "run.phase", "plan.steps.repave"} {
		var c command
		c.wantCode(t, c.run(t, nil, "explain", name), app.ExitOK)
		golden(t, "explain_"+name+".golden", c.out.String())
	}
	for _, plural := range []string{"machines", "waves.phase"} {
		var c command
		c.wantCode(t, c.run(t, nil, "explain", plural), app.ExitOK)
	}
	for name, want := range map[string]string{
		"rack":                "is not one of audit, cluster, console, event, history, image",
		"machine.rack":        `Machine has no field "rack": it has agent`,
		"machine.spec.rack.x": `"rack" has no fields`,
	} {
		var c command
		c.wantCode(t, c.run(t, nil, "explain", name), app.ExitUsage)
		wantIn(t, name, c.err.String(), want)
	}
}

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

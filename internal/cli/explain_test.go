package cli_test

import (
	"testing"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
)

func TestExplain(t *testing.T) {
	for _, name := range []string{"machine", "machine.spec.rack", "run.phase", "plan.steps.repave"} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, nil, "explain", name), app.ExitOK)
		clitest.Golden(t, "explain_"+name+".golden", c.Out.String())
	}
	for _, plural := range []string{"machines", "waves.phase"} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, nil, "explain", plural), app.ExitOK)
	}
	for name, want := range map[string]string{
		"rack":                "is not one of audit, cluster, console, event, history, image",
		"machine.rack":        `Machine has no field "rack": it has agent`,
		"machine.spec.rack.x": `"rack" has no fields`,
	} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, nil, "explain", name), app.ExitUsage)
		clitest.WantIn(t, name, c.Err.String(), want)
	}
}

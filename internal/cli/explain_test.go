package cli

import "testing"

func TestExplain(t *testing.T) {
	for _, name := range []string{"machine", "machine.spec.rack", "run.phase", "plan.steps.repave"} {
		var c command
		c.wantCode(t, c.run(t, nil, "explain", name), ExitOK)
		golden(t, "explain_"+name+".golden", c.out.String())
	}
	for name, want := range map[string]string{
		"rack":                "is not one of audit, cluster, history, image, machine",
		"machine.rack":        `Machine has no field "rack": it has agent`,
		"machine.spec.rack.x": `"rack" has no fields`,
	} {
		var c command
		c.wantCode(t, c.run(t, nil, "explain", name), ExitUsage)
		wantIn(t, name, c.err.String(), want)
	}
}
